package cri

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/internal/eventually"
	"vigil/kubelet"
)

// A container that does not want to end is waited for, until somebody loses patience.
func TestStopContainer(t *testing.T) {
	n := startNode(t, nil)
	pod := newPod("stubborn", []string{"ignore-term"}, []string{"sleep", "1000"}, []string{"sleep", "1000"})
	pod.Spec.Containers[2].Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGKILL)}
	ids := n.run(pod)
	exit := func(id string) *kubelet.Container {
		t.Helper()
		_, containers, err := n.Pod(n.context(), pod.UID)
		if err != nil {
			t.Fatal(err)
		}
		return stateOf(containers, id)
	}
	ctx, cancel := context.WithCancel(n.context())
	patient := make(chan error, 1)
	go func() { patient <- n.StopContainer(ctx, ids[0], time.Hour) }()
	began := time.Now()
	if err := n.StopContainer(n.context(), ids[1], time.Hour); err != nil { // which ends on SIGTERM
		t.Fatal(err)
	}
	if c := exit(ids[1]); c.State != kubelet.ContainerExited {
		t.Errorf("the willing one is %+v", c)
	}
	cancel()
	if err := <-patient; err == nil {
		t.Error("a wait that was given up succeeded")
	}
	if c := exit(ids[0]); c.State != kubelet.ContainerRunning {
		t.Errorf("the stubborn one is %+v", c)
	}
	if err := n.StopContainer(n.context(), ids[0], time.Second); err != nil {
		t.Fatal(err)
	}
	if c := exit(ids[0]); c.State != kubelet.ContainerExited || c.ExitCode != 137 {
		t.Errorf("the stubborn one is %+v", c)
	}
	if err := n.StopContainer(n.context(), ids[2], time.Hour); err != nil {
		t.Fatal(err)
	}
	if c := exit(ids[2]); c.ExitCode != 137 {
		t.Errorf("the one with a signal of its own is %+v", c)
	}
	if took := time.Since(began); took > eventually.Limit {
		t.Errorf("all that took %v", took)
	}
	for _, id := range append(ids, "containerd://none") { // there is nothing to stop
		if err := n.StopContainer(n.context(), id, time.Hour); err != nil {
			t.Error(err)
		}
	}
}
