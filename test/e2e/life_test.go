package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/eventually"
	"vigil/test/harness"
)

// crashes: a container that ends is started again, later and later.
func crashes(t *testing.T, c *cluster) {
	c.apply(manifest("loop", `containers: [{name: c, image: "demo:1", args: [sh, -c, "write /dev/termination-log dying; exit 3"]}]`) +
		manifest("once", `restartPolicy: Never, containers: [{name: c, image: "demo:1", args: [exit, "4"]}]`) +
		manifest("deadline", `activeDeadlineSeconds: 2, containers: [{name: c, image: "demo:1"}]`))
	pod := c.waits("loop", "c", "CrashLoopBackOff")
	full := fmt.Sprintf("c pod=loop_%s(%s)", c.Namespace, pod.UID)
	status := container(pod, "c")
	if message := status.State.Waiting.Message; !strings.HasPrefix(message, "back-off ") || !strings.HasSuffix(message, "s restarting failed container="+full) {
		t.Errorf("the container waits with %q", message)
	}
	if last := status.LastTerminationState.Terminated; last == nil || last.ExitCode != 3 || last.Reason != "Error" || last.Message != "dying\n" {
		t.Errorf("it ended last with %+v", last)
	}
	if pod.Status.Phase != corev1.PodRunning || isReady(pod) {
		t.Errorf("phase %s, ready %v", pod.Status.Phase, isReady(pod))
	}
	if out := c.Kubectl("get", "pod", "loop"); !strings.Contains(out, "CrashLoopBackOff") {
		t.Errorf("kubectl get shows\n%s", out)
	}
	c.hasEvent("loop", fmt.Sprintf("BackOff: Back-off restarting failed container c in pod loop_%s(%s)", c.Namespace, pod.UID))
	c.untilPod("loop", "second restart", func(p *corev1.Pod) bool { return container(p, "c").RestartCount >= 2 })

	c.untilPod("once", "phase Failed", func(p *corev1.Pod) bool {
		ended := container(p, "c").State.Terminated
		return p.Status.Phase == corev1.PodFailed && ended != nil && ended.ExitCode == 4 && ended.Reason == "Error" && container(p, "c").RestartCount == 0
	})
	pod = c.untilPod("deadline", "phase Failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if pod.Status.Reason != "DeadlineExceeded" || pod.Status.Message != "Pod was active on the node longer than the specified deadline" {
		t.Errorf("after its deadline a pod failed with %s: %s", pod.Status.Reason, pod.Status.Message)
	}
}

// probes: a start probe holds the others back, a pod that is not ready leaves its Service, one that is not alive is restarted.
func probes(t *testing.T, c *cluster) {
	c.apply(manifest("probed", `containers: [{name: c, image: "demo:1", args: [serve, --start-delay=2s],
  startupProbe: {httpGet: {path: /startz, port: 8080}, periodSeconds: 1, failureThreshold: 60},
  readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1, failureThreshold: 1},
  livenessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 1}}]`) +
		"{apiVersion: v1, kind: Service, metadata: {name: probed}, spec: {selector: {app: probed}, ports: [{port: 80, targetPort: 8080}]}}")
	addresses := func(ready, notReady int) {
		t.Helper()
		eventually.Nil(c.T, fmt.Sprintf("%d addresses are ready, %d not", ready, notReady), func() error {
			endpoints, err := c.Client().CoreV1().Endpoints(c.Namespace).Get(t.Context(), "probed", metav1.GetOptions{})
			if err != nil {
				return err
			}
			r, n := 0, 0
			for _, subset := range endpoints.Subsets {
				r, n = r+len(subset.Addresses), n+len(subset.NotReadyAddresses)
			}
			if r != ready || n != notReady {
				return fmt.Errorf("endpoints are %+v", endpoints.Subsets)
			}
			return nil
		})
	}
	pod := c.running("probed")
	if status := container(pod, "c"); status.RestartCount != 0 || status.Started == nil || !*status.Started {
		t.Errorf("after its start the container is %+v", status)
	}
	c.hasEvent("probed", "Unhealthy: Startup probe failed: ")
	addresses(1, 0)

	c.demo("probed", "fetch", "http://127.0.0.1:8080/readyz?set=fail")
	addresses(0, 1)
	c.hasEvent("probed", "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503")
	c.demo("probed", "fetch", "http://127.0.0.1:8080/readyz?set=ok")
	addresses(1, 0)

	c.demo("probed", "fetch", "http://127.0.0.1:8080/healthz?set=fail")
	c.untilPod("probed", "restarted", func(p *corev1.Pod) bool { return container(p, "c").RestartCount == 1 && isReady(p) })
	c.hasEvent("probed", "Unhealthy: Liveness probe failed: HTTP probe failed with statuscode: 503")
	c.hasEvent("probed", "Killing: Container c failed liveness probe, will be restarted")
	addresses(1, 0)
}

// killed: what dies from outside is restarted, and what is deleted replaced.
func killed(t *testing.T, c *cluster) {
	c.Kubectl("create", "deployment", "victim", "--image=demo:1")
	c.Kubectl("rollout", "status", "deployment/victim", harness.InTime)
	name := strings.TrimPrefix(strings.TrimSpace(c.Kubectl("get", "pods", "-o", "name")), "pod/")
	before := c.running(name)
	if err := syscall.Kill(c.process(before, "demo"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	after := c.untilPod(name, "restarted", func(p *corev1.Pod) bool { return container(p, "demo").RestartCount == 1 && isReady(p) })
	if last := container(after, "demo").LastTerminationState.Terminated; last == nil || last.ExitCode != 137 || last.Reason != "Error" {
		t.Errorf("the killed container ended with %+v", last)
	}
	if before.Status.PodIP != after.Status.PodIP {
		t.Errorf("the pod's address was %s and is %s", before.Status.PodIP, after.Status.PodIP)
	}
	c.Kubectl("delete", "pod", name, "--grace-period=1")
	c.Kubectl("rollout", "status", "deployment/victim", harness.InTime)
	if now := c.Kubectl("get", "pods", "-o", "name"); strings.Contains(now, name) || strings.Count(now, "\n") != 1 {
		t.Errorf("after %s was deleted there are %q", name, now)
	}
}

// process is the id of a container's first process.
func (c *cluster) process(pod *corev1.Pod, name string) int {
	c.T.Helper()
	id := strings.TrimPrefix(container(pod, name).ContainerID, "containerd://")
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	defer cancel()
	answer, err := c.cri().ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		c.T.Fatal(err)
	}
	var info struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(answer.Info["info"]), &info); err != nil || info.PID == 0 {
		c.T.Fatalf("process of %s: %v in %v", id, err, answer.Info)
	}
	return info.PID
}

// initContainers run one after another; those that are restarted stay beside the others, and end after them.
func initContainers(t *testing.T, c *cluster) {
	c.apply(manifest("begun", `restartPolicy: Never, volumes: [{name: v, emptyDir: {}}],
initContainers: [{name: first, image: "demo:1", args: [sh, -c, "echo first >> /v/order"], volumeMounts: [{name: v, mountPath: /v}]},
  {name: side, image: "demo:1", restartPolicy: Always, args: [serve, --start-delay=1s], startupProbe: {httpGet: {path: /startz, port: 8080}, periodSeconds: 1, failureThreshold: 60}},
  {name: second, image: "demo:1", args: [sh, -c, "fetch http://127.0.0.1:8080/startz >> /v/order; echo second >> /v/order"], volumeMounts: [{name: v, mountPath: /v}]}],
containers: [{name: c, image: "demo:1", args: [cat, /v/order], volumeMounts: [{name: v, mountPath: /v}]}]`) +
		manifest("never", `initContainers: [{name: i, image: "demo:1", args: [exit, "1"]}], containers: [{name: c, image: "demo:1"}]`))
	pod := c.untilPod("begun", "phase Succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	if out := c.Kubectl("logs", "begun", "-c", "c"); out != "first\noksecond\n" {
		t.Errorf("init containers wrote %q", out)
	}
	if side := container(pod, "side"); side.State.Terminated == nil || side.RestartCount != 0 {
		t.Errorf("the sidecar is %+v", side)
	}
	c.waits("never", "i", "CrashLoopBackOff")
	pod = c.pod("never")
	if main := container(pod, "c"); main.State.Waiting == nil || main.State.Waiting.Reason != "PodInitializing" || pod.Status.Phase != corev1.PodPending {
		t.Errorf("behind an init container that fails: phase %s, container %+v", pod.Status.Phase, main)
	}
	if out := c.Kubectl("get", "pod", "never"); !strings.Contains(out, "Init:CrashLoopBackOff") {
		t.Errorf("kubectl get shows\n%s", out)
	}
}

// debug adds a container to a running pod, which sees the processes of another.
func debug(t *testing.T, c *cluster) {
	c.apply(manifest("box", `containers: [{name: c, image: "demo:1"}]`))
	c.running("box")
	c.Kubectl("debug", "box", "--image=demo:2", "--container=eye", "--target=c", "--", "/demo", "sleep", "1000")
	c.untilPod("box", "the ephemeral container runs", func(p *corev1.Pod) bool { return container(p, "eye").State.Running != nil })
	own, first := c.Kubectl("exec", "box", "-c", "eye", "--", "/demo", "env"), c.Kubectl("exec", "box", "-c", "eye", "--", "/demo", "cat", "/proc/1/cmdline")
	if !strings.Contains(own, "DEMO_VERSION=2") || strings.Contains(first, "sleep") {
		t.Errorf("in the ephemeral container: environment\n%s\nprocess 1 is %q", own, first)
	}
	if pod := c.pod("box"); container(pod, "c").RestartCount != 0 || !isReady(pod) {
		t.Errorf("after that the pod is %+v", pod.Status)
	}
}

// resize changes what a container may use while it runs.
func resize(t *testing.T, c *cluster) {
	c.apply(manifest("box", `containers: [{name: c, image: "demo:1", resources: {requests: {cpu: 50m, memory: 32Mi}, limits: {cpu: 100m, memory: 64Mi}}}]`))
	pod := c.running("box")
	process := c.process(pod, "c")
	limit := func() string {
		for _, file := range []string{"memory/memory.limit_in_bytes", "memory.max"} {
			if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", file)); err == nil || strings.HasPrefix(file, "memory/") && isDir("/sys/fs/cgroup/memory") {
				return strings.TrimSpace(c.demo("box", "cat", "/sys/fs/cgroup/"+file))
			}
		}
		return strings.TrimSpace(c.demo("box", "cat", "/sys/fs/cgroup/memory.max"))
	}
	if was := limit(); was != fmt.Sprint(64<<20) {
		t.Errorf("the limit of memory is %s at first", was)
	}
	c.Kubectl("patch", "pod", "box", "--subresource", "resize", "--patch",
		`{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "60m", "memory": "48Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}}]}}`)
	pod = c.untilPod("box", "resized", func(p *corev1.Pod) bool {
		resources := container(p, "c").Resources
		return resources != nil && resources.Limits.Memory().Value() == 128<<20 && resources.Limits.Cpu().MilliValue() == 200
	})
	if is := limit(); is != fmt.Sprint(128<<20) {
		t.Errorf("the limit of memory is %s afterwards", is)
	}
	if container(pod, "c").RestartCount != 0 || c.process(pod, "c") != process {
		t.Errorf("the container was restarted: %+v", container(pod, "c"))
	}
	c.untilPod("box", "no resize under way", func(p *corev1.Pod) bool {
		for _, condition := range p.Status.Conditions {
			if condition.Type == corev1.PodResizeInProgress || condition.Type == corev1.PodResizePending {
				return false
			}
		}
		return true
	})
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// termination: preStop comes first, then SIGTERM, then the grace period, then SIGKILL.
func termination(t *testing.T, c *cluster) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: stubborn}
spec:
  terminationGracePeriodSeconds: 3
  volumes: [{name: out, hostPath: {path: %s}}]
  containers:
  - {name: c, image: "demo:1", args: [ignore-term], volumeMounts: [{name: out, mountPath: /out}], lifecycle: {preStop: {exec: {command: [/demo, write, /out/stopped, bye]}}}}
`, dir))
	pod := c.running("stubborn")
	process := c.process(pod, "c")
	c.Kubectl("delete", "pod", "stubborn")
	if text, err := os.ReadFile(filepath.Join(dir, "stopped")); err != nil || string(text) != "bye\n" {
		t.Errorf("preStop wrote %q, %v", text, err)
	}
	if err := syscall.Kill(process, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the pod is gone, its process %d is not: %v", process, err)
	}
	c.hasEvent("stubborn", "Killing: Stopping container c")
}

// top and describe tell people about pods.
func top(t *testing.T, c *cluster) {
	c.apply(manifest("seen", `containers: [{name: c, image: "demo:1", env: [{name: A, value: b}]}]`))
	c.running("seen")
	eventually.Nil(c.T, "kubectl top knows the pod", func() error {
		out, errs, err := c.TryKubectl("", "top", "pod", "seen", "--containers")
		if err == nil && !strings.Contains(out, "Mi") {
			err = errors.New(out)
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, errs)
		}
		return nil
	})
	eventually.Nil(c.T, "kubectl top knows the node", func() error {
		out, errs, err := c.TryKubectl("", "top", "node")
		if err == nil && !strings.Contains(out, "node-1") {
			err = errors.New(out)
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, errs)
		}
		return nil
	})
	c.hasEvent("seen", "Started: ")
	said := c.Kubectl("describe", "pod", "seen")
	for _, part := range []string{"Status:           Running", "Container ID:   containerd://", "Image:          demo:1", "Restart Count:  0", "A:  b", "PodReadyToStartContainers   True", "QoS Class:                   BestEffort",
		"Scheduled ", "Successfully assigned " + c.Namespace + "/seen to node-1", `Container image "demo:1" already present on machine`, "Created ", "Started "} {
		if !strings.Contains(said, part) {
			t.Errorf("kubectl describe pod does not say %q:\n%s", part, said)
		}
	}
	said = c.Kubectl("describe", "node", "node-1")
	for _, part := range []string{"KubeletReady", "kubelet is posting ready status", "Container Runtime Version:  containerd://", "Non-terminated Pods:", "NodeReady", "RegisteredNode"} {
		if !strings.Contains(said, part) {
			t.Errorf("kubectl describe node does not say %q:\n%s", part, said)
		}
	}
}

// drain empties a node, which takes nothing until it is called back.
func drain(t *testing.T, c *cluster) {
	c.Kubectl("create", "deployment", "moving", "--image=demo:1", "--replicas=2")
	c.Kubectl("rollout", "status", "deployment/moving", harness.InTime)
	if out := c.Kubectl("drain", "node-1", "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--disable-eviction=false", "--grace-period=1", "--pod-selector=app=moving"); !strings.Contains(out, "node/node-1 drained") {
		t.Errorf("kubectl drain says\n%s", out)
	}
	if out := c.Kubectl("get", "nodes"); !strings.Contains(out, "Ready,SchedulingDisabled") {
		t.Errorf("kubectl get nodes says\n%s", out)
	}
	eventually.Nil(c.T, "new pods wait", func() error {
		list, err := c.Client().CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=moving"})
		if err != nil {
			return err
		}
		if len(list.Items) != 2 {
			return fmt.Errorf("%d pods", len(list.Items))
		}
		for i := range list.Items {
			if list.Items[i].Status.Phase != corev1.PodPending || list.Items[i].Spec.NodeName != "" {
				return fmt.Errorf("pod %+v", list.Items[i].Status)
			}
		}
		return nil
	})
	c.Kubectl("uncordon", "node-1")
	c.Kubectl("rollout", "status", "deployment/moving", harness.InTime)
}
