package cri

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"vigil/internal/eventually"
	"vigil/kubelet"
)

// containerd is killed while containers run: they run on, Follow finds it again, and what happened meanwhile is told of.
func TestContainerdKilled(t *testing.T) {
	n := startNode(t, nil)
	pod := newPod("stays", []string{"sleep", "1000"}, []string{"sleep", "3"})
	ids := n.run(pod)
	before := n.await(pod.UID, "both run", func(_ *kubelet.Sandbox, c []*kubelet.Container) bool {
		return stateOf(c, ids[0]).State == kubelet.ContainerRunning
	})
	kill(t, "containerd")
	containers := n.await(pod.UID, "the short one has ended", func(_ *kubelet.Sandbox, c []*kubelet.Container) bool {
		short := stateOf(c, ids[1])
		return short != nil && short.State == kubelet.ContainerExited
	})
	long := stateOf(containers, ids[0])
	if long.State != kubelet.ContainerRunning || !long.Started.Equal(stateOf(before, ids[0]).Started) {
		t.Errorf("the long one is %+v", long)
	}
	if short := stateOf(containers, ids[1]); short.ExitCode != 0 || short.Reason != "Completed" {
		t.Errorf("the short one is %+v", short)
	}
	if _, code, err := n.Exec(n.context(), ids[0], []string{"demo", "hostname"}, 0, 0); err != nil || code != 0 {
		t.Errorf("exec: %d, %v", code, err)
	}
	other := newPod("later", []string{"sleep", "1000"})
	n.run(other)
	if err := n.StopContainer(n.context(), ids[0], 0); err != nil {
		t.Error(err)
	}
}

// kill kills the programs of a name that run in the test's own PID namespace.
func kill(t *testing.T, name string) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, file := range found {
		if comm, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(comm)) != name {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed++
	}
	if killed == 0 {
		t.Fatalf("no %s runs", name)
	}
}

// A kubelet that starts finds what another one has left.
func TestAdoption(t *testing.T) {
	n := startNode(t, nil)
	pod := newPod("left", []string{"sleep", "1000"}, []string{"exit", "2"})
	ids := n.run(pod)
	n.await(pod.UID, "one has ended", func(_ *kubelet.Sandbox, c []*kubelet.Container) bool {
		return stateOf(c, ids[1]).State == kubelet.ContainerExited
	})
	second := n.connect(func(c *Config) { c.RootDir, c.LogDir = n.config.RootDir, n.config.LogDir })
	sandbox, containers, err := second.Pod(n.context(), pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	if !sandbox.Ready || sandbox.NetNS == "" || stateOf(containers, ids[0]).State != kubelet.ContainerRunning || stateOf(containers, ids[1]).ExitCode != 2 {
		t.Errorf("found %+v with %+v", sandbox, deref(containers))
	}
	pods, err := second.Pods(n.context())
	if err != nil || len(pods) != 1 || pods[0] != (kubelet.PodReference{UID: pod.UID, Namespace: "default", Name: "left"}) {
		t.Errorf("found pods %v, %v", pods, err)
	}
	// What one does the other is told of.
	n.follow(second)
	if err := n.StopContainer(n.context(), ids[0], 0); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the second knows", func() bool {
		_, containers, err := second.Pod(n.context(), pod.UID)
		return err == nil && stateOf(containers, ids[0]).State == kubelet.ContainerExited
	})
	// A container made in a sandbox of another process.
	image, err := second.EnsureImage(n.context(), kubelet.ImageRequest{Pod: pod, Container: &pod.Spec.Containers[0]})
	if err != nil {
		t.Fatal(err)
	}
	id, err := second.CreateContainer(n.context(), pod, &pod.Spec.Containers[0], kubelet.ContainerOptions{
		Attempt: 1, ImageID: image.ID, Args: []string{"sleep", "1000"}, Sandbox: sandboxOptions(pod),
	})
	if err == nil {
		err = second.StartContainer(n.context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, containers, _ = second.Pod(n.context(), pod.UID); containers[0].ID != id || containers[0].State != kubelet.ContainerRunning {
		t.Errorf("the newest is %+v", containers[0])
	}
}

// The process that holds a sandbox is killed: the sandbox is not ready, and the next one has another attempt number.
func TestSandboxDies(t *testing.T) {
	n := startNode(t, nil)
	pod := newPod("again", []string{"sleep", "1000"})
	n.run(pod)
	first, _, _ := n.Pod(n.context(), pod.UID)
	kill(t, "pause")
	n.await(pod.UID, "the sandbox is not ready", func(s *kubelet.Sandbox, _ []*kubelet.Container) bool { return !s.Ready })
	if err := n.StopSandbox(n.context(), pod.UID); err != nil {
		t.Fatal(err)
	}
	second, err := n.RunSandbox(n.context(), pod, sandboxOptions(pod))
	if err != nil {
		t.Fatal(err)
	}
	if second.ID == first.ID || !second.Ready {
		t.Errorf("after %+v came %+v", first, second)
	}
	if _, err := n.start(pod, &pod.Spec.Containers[0], 1); err != nil {
		t.Fatal(err)
	}
	sandbox, containers, _ := n.Pod(n.context(), pod.UID)
	if sandbox.ID != second.ID || len(containers) != 2 || containers[0].SandboxID != second.ID || containers[1].SandboxID != first.ID {
		t.Errorf("the pod is %+v, %+v", sandbox, deref(containers))
	}
}

// Many pods start and stop at once; nothing is lost, and Pod asks nobody.
func TestManyPods(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	const many = 50
	n := startNode(t, nil)
	began, cpu := time.Now(), processTime(t)
	uids, failed := make([]string, many), make(chan error, many)
	for i := range many {
		go func() {
			pod := newPod(fmt.Sprintf("pod-%d", i), []string{"sleep", "1000"})
			uids[i] = string(pod.UID)
			_, err := n.RunSandbox(context.Background(), pod, sandboxOptions(pod))
			if err == nil {
				_, err = n.start(pod, &pod.Spec.Containers[0], 0)
			}
			failed <- err
		}()
	}
	for range many {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d pods started in %v, %v of our own CPU time", many, time.Since(began).Round(time.Millisecond), processTime(t)-cpu)
	pods, err := n.Pods(n.context())
	if err != nil || len(pods) != many {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	kill(t, "demo")
	for _, p := range pods {
		n.await(p.UID, "its container has been killed", func(_ *kubelet.Sandbox, c []*kubelet.Container) bool {
			return len(c) == 1 && c[0].State == kubelet.ContainerExited
		})
	}
	began = time.Now()
	for _, p := range pods {
		go func() { failed <- n.RemovePod(context.Background(), p.UID) }()
	}
	for range many {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	t.Logf("and removed in %v", time.Since(began).Round(time.Millisecond))
	if pods, err := n.Pods(n.context()); err != nil || len(pods) != 0 {
		t.Errorf("left over: %v, %v", pods, err)
	}
}

// processTime is the CPU time of this process.
func processTime(t testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
