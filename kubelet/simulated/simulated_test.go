package simulated

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet"
)

func TestScript(t *testing.T) {
	for _, test := range []struct {
		command     []string
		annotations map[string]string
		life        time.Duration
		code        int32
	}{
		{nil, nil, forever, 0},
		{[]string{"nginx", "-g", "daemon off;"}, nil, forever, 0},
		{[]string{"true"}, nil, 0, 0},
		{[]string{"/bin/false"}, nil, 0, 1},
		{[]string{"sleep", "2"}, nil, 2 * time.Second, 0},
		{[]string{"sleep", "infinity"}, nil, forever, 0},
		{[]string{"sh", "-c", "sleep 1; exit 3"}, nil, time.Second, 3},
		{[]string{"/bin/sh", "-c", "sleep 0.5 && sleep 1 && true"}, nil, 1500 * time.Millisecond, 0},
		{[]string{"sh", "-c", "while true; do date; done"}, nil, forever, 0},
		{nil, map[string]string{RunForAnnotation: "5s", ExitCodeAnnotation: "7"}, 5 * time.Second, 7},
		{[]string{"true"}, map[string]string{RunForAnnotation: "never"}, 0, 0},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}
		life, code := script(pod, &corev1.Container{Command: test.command})
		if life != test.life || code != test.code {
			t.Errorf("%q %v: runs %v and exits %d, want %v and %d", test.command, test.annotations, life, code, test.life, test.code)
		}
	}
}

func TestScript_InitContainers(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{RunForAnnotation: "5s", ExitCodeAnnotation: "7"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{
				{Name: "plain"}, {Name: "waits", Command: []string{"sh", "-c", "until nslookup db; do sleep 2; done"}},
				{Name: "fails", Command: []string{"sh", "-c", "sleep 2; exit 3"}}, {Name: "sidecar", RestartPolicy: &always},
			},
			Containers: []corev1.Container{{Name: "main"}},
		},
	}
	got := ""
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		life, code := script(pod, &c)
		got += fmt.Sprintf("%s %v %d, ", c.Name, life, code)
	}
	if want := "plain 0s 0, waits 0s 0, fails 2s 3, sidecar 5s 7, main 5s 7, "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestContainer_EndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := New(netip.MustParsePrefix("10.244.1.0/24"))
		changed := make(chan types.UID, 1)
		go r.Follow(ctx, func(uid types.UID) { changed <- uid })
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
		if _, err := r.CreateContainer(ctx, p, &corev1.Container{Name: "c"}, kubelet.ContainerOptions{}); err == nil {
			t.Error("a container started without a sandbox")
		}
		sandbox, err := r.RunSandbox(ctx, p, kubelet.SandboxOptions{})
		if err != nil || sandbox.IPs[0] != "10.244.1.2" {
			t.Fatalf("sandbox %+v, %v", sandbox, err)
		}
		began := time.Now()
		id, err := r.CreateContainer(ctx, p, &corev1.Container{Name: "c", Command: []string{"sh", "-c", "sleep 3; exit 4"}}, kubelet.ContainerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.StartContainer(ctx, id); err != nil {
			t.Fatal(err)
		}
		if uid := <-changed; uid != "u" || time.Since(began) != 3*time.Second {
			t.Errorf("pod %s changed after %v", uid, time.Since(began))
		}
		_, containers, err := r.Pod(ctx, "u")
		if err != nil || len(containers) != 1 || containers[0].State != kubelet.ContainerExited || containers[0].ExitCode != 4 || containers[0].Reason != "Error" {
			t.Errorf("got %+v, %v", containers, err)
		}
		cancel()
	})
}

func TestAddresses_AreFreedAndRunOut(t *testing.T) {
	r := New(netip.MustParsePrefix("10.0.0.0/29")) // .2 to .7
	ctx := t.Context()
	seen := map[string]bool{}
	for i := range 6 {
		sandbox, err := r.RunSandbox(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(rune('a' + i))}}, kubelet.SandboxOptions{})
		if err != nil {
			t.Fatalf("pod %d: %v", i, err)
		}
		if seen[sandbox.IPs[0]] {
			t.Errorf("%s was given twice", sandbox.IPs[0])
		}
		seen[sandbox.IPs[0]] = true
	}
	if _, err := r.RunSandbox(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "z"}}, kubelet.SandboxOptions{}); err == nil {
		t.Error("an address too many was given")
	}
	if err := r.RemovePod(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.RunSandbox(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "z"}}, kubelet.SandboxOptions{}); err != nil {
		t.Errorf("a freed address was not given again: %v", err)
	}
}

func TestRestore_TakesUpWhatWasReported(t *testing.T) {
	r := New(netip.MustParsePrefix("10.244.1.0/24"))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}, {Name: "d"}}},
		Status: corev1.PodStatus{PodIP: "10.244.1.9", Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "c", ContainerID: "simulated://1", RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}},
			{Name: "d", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
		}},
	}
	r.Restore(p)
	sandbox, containers, err := r.Pod(t.Context(), "u")
	if err != nil || sandbox == nil || sandbox.IPs[0] != "10.244.1.9" {
		t.Fatalf("got %+v, %v", sandbox, err)
	}
	if len(containers) != 1 || containers[0].ID != "simulated://1" || containers[0].Attempt != 2 || containers[0].State != kubelet.ContainerRunning {
		t.Errorf("got %+v", containers)
	}
}

// The network is asked for when a pod needs it, again after a failure, and not once it is known.
func TestNewIn(t *testing.T) {
	asked := 0
	r := NewIn(func(context.Context) (netip.Prefix, error) {
		if asked++; asked == 1 {
			return netip.Prefix{}, errors.New("not yet")
		}
		return netip.MustParsePrefix("10.1.2.0/24"), nil
	})
	pod := func(uid string, host bool) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: corev1.PodSpec{HostNetwork: host}}
	}
	if _, err := r.RunSandbox(t.Context(), pod("host", true), kubelet.SandboxOptions{}); err != nil || asked != 0 {
		t.Errorf("a pod with the host's network: %v, asked %d times", err, asked)
	}
	if _, err := r.RunSandbox(t.Context(), pod("a", false), kubelet.SandboxOptions{}); err == nil || err.Error() != "not yet" {
		t.Errorf("without a network: %v", err)
	}
	for i, want := range []string{"10.1.2.2", "10.1.2.3"} {
		sandbox, err := r.RunSandbox(t.Context(), pod(string(rune('b'+i)), false), kubelet.SandboxOptions{})
		if err != nil || sandbox.IPs[0] != want {
			t.Errorf("got %v, %v, want %s", sandbox, err, want)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}
}
