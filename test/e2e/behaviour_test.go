package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/built"
	"vigil/internal/eventually"
)

// aboutNode: a node tells in labels and events how it is.
func aboutNode(t *testing.T, c *cluster) {
	node := strings.TrimSpace(c.Kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
	if labels := c.Kubectl("get", "node", node, "--show-labels"); !strings.Contains(labels, "beta.kubernetes.io/os=linux") || !strings.Contains(labels, "beta.kubernetes.io/arch=") {
		t.Errorf("labels:\n%s", labels)
	}
	eventually.Nil(c.T, "kubectl describe node has its events", func() error {
		said := c.Kubectl("describe", "node", node)
		_, events, _ := strings.Cut(said, "Events:")
		for _, want := range []string{"Starting", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeAllocatableEnforced"} {
			if !strings.Contains(events, " "+want+" ") {
				return fmt.Errorf("no %s in\n%s", want, events)
			}
		}
		return nil
	})
}

// confined: a container that asks for a filter of system calls has it, or does not run.
func confined(t *testing.T, c *cluster) {
	c.apply(manifest("own", `containers: [{name: c, image: "demo:1", securityContext: {seccompProfile: {type: RuntimeDefault}}}]`) +
		manifest("plain", `containers: [{name: c, image: "demo:1"}]`))
	filter := func(pod string) string {
		_, after, _ := strings.Cut(c.demo(pod, "cat", "/proc/self/status"), "Seccomp:")
		return strings.Fields(after)[0]
	}
	c.running("plain")
	if got := filter("plain"); got != "0" {
		t.Errorf("a container that says nothing has filter mode %s", got)
	}
	features, err := exec.CommandContext(t.Context(), filepath.Join(built.RuntimeDir(t), "runc"), "features").Output()
	if err != nil {
		t.Fatalf("ask runc what it can do: %v", err)
	}
	var can struct {
		Linux struct {
			Seccomp *struct {
				Enabled bool `json:"enabled"`
			} `json:"seccomp"`
		} `json:"linux"`
	}
	if err := json.Unmarshal(features, &can); err != nil {
		t.Fatal(err)
	}
	if s := can.Linux.Seccomp; s != nil && s.Enabled {
		c.running("own")
		if got := filter("own"); got != "2" {
			t.Errorf("a container that asks for a filter has mode %s", got)
		}
		return
	}
	pod := c.waits("own", "c", "CreateContainerConfigError")
	if message := container(pod, "c").State.Waiting.Message; !strings.HasPrefix(message, "seccomp is not supported: ") {
		t.Errorf("it waits with %q", message)
	}
}

// forced: a pod that is deleted by force is gone from the API at once, and ends on its node like any other.
func forced(t *testing.T, c *cluster) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	pod := manifest("forced", fmt.Sprintf(`volumes: [{name: out, hostPath: {path: %s}}],
containers: [{name: c, image: "demo:1", volumeMounts: [{name: out, mountPath: /out}], lifecycle: {preStop: {exec: {command: [/demo, write, /out/stopped, bye]}}}}]`, dir))
	c.apply(strings.Replace(pod, "terminationGracePeriodSeconds: 1,", "terminationGracePeriodSeconds: 60,", 1)) // time for the hook on a busy machine
	process := c.process(c.running("forced"), "c")
	c.Kubectl("delete", "pod", "forced", "--force", "--grace-period=0")
	if out, _, err := c.TryKubectl("", "get", "pod", "forced"); err == nil {
		t.Errorf("the API still has it:\n%s", out)
	}
	eventually.Nil(c.T, "its process ends", func() error {
		if err := syscall.Kill(process, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d: %v", process, err)
		}
		return nil
	})
	if text, err := os.ReadFile(filepath.Join(dir, "stopped")); err != nil || string(text) != "bye\n" {
		t.Errorf("preStop wrote %q, %v", text, err)
	}
}

// sandboxDies: a pod whose sandbox is killed gets another, and runs all the while as far as its phase tells.
func sandboxDies(t *testing.T, c *cluster) {
	c.apply(manifest("orphaned", `containers: [{name: c, image: "demo:1"}]`))
	before := c.running("orphaned")
	watch, err := c.Client().CoreV1().Pods(c.Namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=orphaned", ResourceVersion: before.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if err := syscall.Kill(c.pause(before), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for event := range watch.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("watch: %+v", event.Object)
		}
		if pod.Status.Phase != corev1.PodRunning {
			t.Errorf("phase %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		if s := container(pod, "c"); s.RestartCount == 1 && isReady(pod) {
			if s.LastTerminationState.Terminated == nil {
				t.Errorf("how it ended is not told: %+v", s)
			}
			break
		}
	}
	c.hasEvent("orphaned", "SandboxChanged: Pod sandbox changed, it will be killed and re-created.")
}

// pause is the id of the first process of a pod's sandbox.
func (c *cluster) pause(pod *corev1.Pod) int {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	defer cancel()
	list, err := c.cri().ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(pod.UID)}}})
	if err != nil || len(list.Items) != 1 {
		c.T.Fatalf("sandboxes of %s: %v, %v", pod.Name, list, err)
	}
	answer, err := c.cri().PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: list.Items[0].Id, Verbose: true})
	if err != nil {
		c.T.Fatal(err)
	}
	var info struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(answer.Info["info"]), &info); err != nil || info.PID == 0 {
		c.T.Fatalf("process of sandbox %s: %v in %v", list.Items[0].Id, err, answer.Info)
	}
	return info.PID
}
