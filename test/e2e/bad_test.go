package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"vigil/internal/porttest"
	"vigil/kubelet/containerd/containerdtest"
)

// badImages: images that are not there, may not be pulled, or have no name.
func badImages(t *testing.T, c *cluster) {
	registry := containerdtest.StartRegistry(t, containerdtest.RegistryOptions{})
	missing := registry.Host + "/nobody/nothing:1"
	refused := deadAddress(t) + "/nobody/nothing:1"
	one := func(name, image, policy string) string {
		return manifest(name, fmt.Sprintf("containers: [{name: c, image: %q, imagePullPolicy: %s}]", image, policy))
	}
	c.apply(one("missing", missing, "IfNotPresent") + one("refused", refused, "Always") + one("never", "demo:404", "Never") + one("name", "demo:1", "Never") + one("good", registry.Host+"/somewhere/demo:2", "Always"))
	c.apply(one("unnamed", "UPPER:case", "IfNotPresent"))

	pod := c.waits("missing", "c", "ImagePullBackOff")
	message := container(pod, "c").State.Waiting.Message
	if want := fmt.Sprintf("Back-off pulling image %q: ErrImagePull: ", missing); !strings.HasPrefix(message, want) || !strings.Contains(message, "not found") {
		t.Errorf("the container waits with %q, want %q and not found", message, want)
	}
	c.hasEvent("missing", fmt.Sprintf("Pulling: Pulling image %q", missing))
	c.hasEvent("missing", fmt.Sprintf("Failed: Failed to pull image %q: ", missing))
	c.hasEvent("missing", "Failed: Error: ErrImagePull")
	c.hasEvent("missing", fmt.Sprintf("BackOff: Back-off pulling image %q", missing))
	c.hasEvent("missing", "Failed: Error: ImagePullBackOff")
	if said := c.KubectlFails("", "logs", "missing"); !strings.Contains(said, `container "c" in pod "missing" is waiting to start: trying and failing to pull image`) {
		t.Errorf("logs of a container without image: %q", said)
	}
	c.waits("refused", "c", "ImagePullBackOff")
	c.hasEvent("refused", "connection refused")

	pod = c.waits("never", "c", "ErrImageNeverPull")
	if message := container(pod, "c").State.Waiting.Message; message != `Container image "demo:404" is not present with pull policy of Never` {
		t.Errorf("with policy Never the container waits with %q", message)
	}
	c.hasEvent("never", `ErrImageNeverPull: Container image "demo:404" is not present with pull policy of Never`)
	c.hasEvent("never", "Failed: Error: ErrImageNeverPull")

	pod = c.waits("unnamed", "c", "InvalidImageName")
	if message := container(pod, "c").State.Waiting.Message; !strings.HasPrefix(message, `Failed to apply default image tag "UPPER:case": couldn't parse image name "UPPER:case": invalid reference format`) {
		t.Errorf("with an invalid name the container waits with %q", message)
	}
	c.hasEvent("unnamed", `InspectFailed: Failed to apply default image tag "UPPER:case"`)
	c.hasEvent("unnamed", "Failed: Error: InvalidImageName")

	c.running("name")
	c.running("good")
	c.hasEvent("good", fmt.Sprintf("Pulled: Successfully pulled image %q in ", registry.Host+"/somewhere/demo:2"))
}

// deadAddress is an address of this machine at which nobody listens while the test runs.
func deadAddress(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(porttest.Free(t)))
}

// badCommands: programs that are not there, hooks that fail.
func badCommands(t *testing.T, c *cluster) {
	c.apply(manifest("absent", `containers: [{name: c, image: "demo:1", command: [/no/such/program]}]`) +
		manifest("hook", `containers: [{name: c, image: "demo:1", lifecycle: {postStart: {exec: {command: [/demo, exit, "3"]}}}}]`) +
		manifest("place", `containers: [{name: c, image: "demo:1", workingDir: /demo/file}]`))
	pod := c.untilPod("absent", "CrashLoopBackOff", func(p *corev1.Pod) bool {
		status := container(p, "c")
		return status.State.Waiting != nil && status.State.Waiting.Reason == "CrashLoopBackOff" && status.LastTerminationState.Terminated != nil
	})
	last := container(pod, "c").LastTerminationState.Terminated
	if last.Reason != "StartError" || last.ExitCode != 128 || !strings.Contains(last.Message, "no such file or directory") {
		t.Errorf("a container without its program ended with %+v", last)
	}
	c.hasEvent("absent", "Failed: Error: failed to create containerd task: ")
	c.untilPod("absent", "a restart is counted", func(p *corev1.Pod) bool { return container(p, "c").RestartCount >= 1 })

	c.hasEvent("hook", "FailedPostStartHook: PostStartHook failed")
	c.hasEvent("hook", "Killing: FailedPostStartHook")
	c.untilPod("hook", "restarted", func(p *corev1.Pod) bool { return container(p, "c").RestartCount >= 1 })
	c.hasEvent("place", "Failed: Error: ")
}

// badConfig: what a container is to be made of does not exist, or contradicts itself.
func badConfig(t *testing.T, c *cluster) {
	c.Kubectl("create", "configmap", "settings", "--from-literal=colour=red")
	c.apply(manifest("map", `containers: [{name: c, image: "demo:1", env: [{name: A, valueFrom: {configMapKeyRef: {name: none, key: a}}}]}]`) +
		manifest("key", `containers: [{name: c, image: "demo:1", env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: taste}}}]}]`) +
		manifest("secret", `containers: [{name: c, image: "demo:1", envFrom: [{secretRef: {name: none}}]}]`) +
		manifest("root", `containers: [{name: c, image: "demo:1", securityContext: {runAsNonRoot: true}}]`) +
		manifest("zero", `securityContext: {runAsNonRoot: true, runAsUser: 0}, containers: [{name: c, image: "demo:1"}]`))
	full := func(name string) string {
		return fmt.Sprintf(`(pod: "%s_%s(%s)", container: c)`, name, c.Namespace, c.pod(name).UID)
	}
	for name, want := range map[string]string{
		"map": `configmap "none" not found`, "key": fmt.Sprintf("couldn't find key taste in ConfigMap %s/settings", c.Namespace), "secret": `secret "none" not found`,
		"root": "container has runAsNonRoot and image will run as root " + full("root"), "zero": "container's runAsUser breaks non-root policy " + full("zero"),
	} {
		pod := c.waits(name, "c", "CreateContainerConfigError")
		if message := container(pod, "c").State.Waiting.Message; message != want {
			t.Errorf("pod %s waits with %q, want %q", name, message, want)
		}
		if pod.Status.Phase != corev1.PodPending {
			t.Errorf("pod %s is %s", name, pod.Status.Phase)
		}
		c.hasEvent(name, "Failed: Error: "+want)
	}
	if said := c.KubectlFails("", "logs", "map"); !strings.Contains(said, `container "c" in pod "map" is waiting to start: CreateContainerConfigError`) {
		t.Errorf("logs of a container without configuration: %q", said)
	}
	c.Kubectl("create", "configmap", "none", "--from-literal=a=b")
	c.running("map")
	if out := c.demo("map", "env"); !strings.Contains(out, "A=b\n") {
		t.Errorf("environment:\n%s", out)
	}
}

// badVolumes: what is to be mounted does not exist, is something else, or cannot be.
func badVolumes(t *testing.T, c *cluster) {
	dir := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	one := func(name, volume, mount string) string {
		return manifest(name, fmt.Sprintf(`volumes: [{name: v, %s}], containers: [{name: c, image: "demo:1", volumeMounts: [{name: v, mountPath: /v%s}]}]`, volume, mount))
	}
	c.apply(one("secret", "secret: {secretName: none}", "") + one("map", "configMap: {name: none}", "") +
		one("directory", fmt.Sprintf("hostPath: {path: %s/none, type: Directory}", dir), "") +
		one("unknown", "cephfs: {monitors: [127.0.0.1]}", "") +
		one("claim", "persistentVolumeClaim: {claimName: none}", "") +
		one("escape", fmt.Sprintf("hostPath: {path: %s}", dir), ", subPath: out"))
	c.hasEvent("secret", `FailedMount: MountVolume.SetUp failed for volume "v" : secret "none" not found`)
	c.hasEvent("map", `FailedMount: MountVolume.SetUp failed for volume "v" : configmap "none" not found`)
	c.hasEvent("directory", fmt.Sprintf(`FailedMount: MountVolume.SetUp failed for volume "v" : hostPath %s/none doesn't exist`, dir))
	c.hasEvent("unknown", "no volume plugin matched")
	c.hasEvent("claim", `FailedScheduling: 0/1 nodes are available: persistentvolumeclaim "none" not found.`)
	pod := c.waits("escape", "c", "CreateContainerConfigError")
	if message := container(pod, "c").State.Waiting.Message; message != `failed to prepare subPath for volumeMount "v" of container "c"` {
		t.Errorf("with a subPath that leads out the container waits with %q", message)
	}
	for _, name := range []string{"secret", "directory", "unknown"} {
		pod := c.pod(name)
		if waiting := container(pod, "c").State.Waiting; pod.Status.Phase != corev1.PodPending || waiting == nil || waiting.Reason != "ContainerCreating" {
			t.Errorf("pod %s: %+v", name, pod.Status)
		}
	}
	if said := c.KubectlFails("", "logs", "secret"); !strings.Contains(said, `container "c" in pod "secret" is waiting to start: ContainerCreating`) {
		t.Errorf("logs of a container that waits for its volumes: %q", said)
	}
	c.Kubectl("create", "secret", "generic", "none", "--from-literal=a=b")
	c.running("secret")
	c.Kubectl("delete", "pod", "directory", "unknown", "escape")
}

// outOfMemory: who takes more than its limit is killed, and it is said why.
func outOfMemory(t *testing.T, c *cluster) {
	c.apply(manifest("hungry", `restartPolicy: Never, containers: [{name: c, image: "demo:1", args: [hog, "200"], resources: {limits: {memory: 40Mi}}}]`) +
		manifest("again", `containers: [{name: c, image: "demo:1", args: [hog, "200"], resources: {limits: {memory: 40Mi}}}]`))
	pod := c.untilPod("hungry", "phase Failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if ended := container(pod, "c").State.Terminated; ended == nil || ended.Reason != "OOMKilled" || ended.ExitCode != 137 {
		t.Errorf("the container ended with %+v", ended)
	}
	if out := c.Kubectl("get", "pod", "hungry"); !strings.Contains(out, "OOMKilled") {
		t.Errorf("kubectl get shows\n%s", out)
	}
	pod = c.waits("again", "c", "CrashLoopBackOff")
	if last := container(pod, "c").LastTerminationState.Terminated; last == nil || last.Reason != "OOMKilled" {
		t.Errorf("before its restart the container ended with %+v", last)
	}
}

// overDisk: who writes more than its volumes or it may have is evicted.
func overDisk(t *testing.T, c *cluster) {
	c.apply(manifest("volume", `volumes: [{name: scratch, emptyDir: {sizeLimit: 2Mi}}], containers: [{name: c, image: "demo:1", args: [sh, -c, "fill /v/file 8; sleep 1000"], volumeMounts: [{name: scratch, mountPath: /v}]}]`) +
		manifest("layer", `containers: [{name: c, image: "demo:1", args: [sh, -c, "fill /tmp/file 8; sleep 1000"], resources: {limits: {ephemeral-storage: 2Mi}}}]`) +
		manifest("memory", `restartPolicy: Never, volumes: [{name: m, emptyDir: {medium: Memory, sizeLimit: 2Mi}}], containers: [{name: c, image: "demo:1", args: [fill, /m/file, "8"], volumeMounts: [{name: m, mountPath: /m}]}]`))
	for name, want := range map[string]string{
		"volume": `Usage of EmptyDir volume "scratch" exceeds the limit "2Mi". `,
		"layer":  `Container c exceeded its local ephemeral storage limit "2Mi". `,
	} {
		pod := c.untilPod(name, "phase Failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
		if name == "layer" && strings.HasPrefix(pod.Status.Message, "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ") {
			want = pod.Status.Message // either is looked at first
		}
		if pod.Status.Reason != "Evicted" || pod.Status.Message != want {
			t.Errorf("pod %s failed with %s: %q, want %q", name, pod.Status.Reason, pod.Status.Message, want)
		}
		c.hasEvent(name, "Evicted: "+strings.TrimSpace(want))
	}
	c.untilPod("memory", "phase Failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if out := c.Kubectl("logs", "memory"); !strings.Contains(out, "no space left on device") {
		t.Errorf("a volume in memory that is full says %q", out)
	}
}

// doesNotFit: pods that the scheduler finds no node for, and that a node refuses.
func doesNotFit(t *testing.T, c *cluster) {
	c.apply(manifest("holder", `containers: [{name: c, image: "demo:1", ports: [{containerPort: 8080, hostPort: 18090}]}]`))
	c.running("holder")
	c.apply(manifest("second", `containers: [{name: c, image: "demo:1", ports: [{containerPort: 8080, hostPort: 18090}]}]`) +
		manifest("large", `containers: [{name: c, image: "demo:1", resources: {requests: {cpu: "1000"}}}]`) +
		manifest("port", `nodeName: node-1, containers: [{name: c, image: "demo:1", ports: [{containerPort: 8080, hostPort: 18090}]}]`) +
		manifest("cpu", `nodeName: node-1, containers: [{name: c, image: "demo:1", resources: {requests: {cpu: "1000"}}}]`) +
		manifest("label", `nodeName: node-1, nodeSelector: {disk: none}, containers: [{name: c, image: "demo:1"}]`))
	c.hasEvent("second", "FailedScheduling: 0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.")
	c.hasEvent("large", "FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu.")
	for name, want := range map[string][2]string{
		"port":  {"NodePorts", "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"},
		"cpu":   {"OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000000, used: "},
		"label": {"NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"},
	} {
		pod := c.untilPod(name, "phase Failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
		if pod.Status.Reason != want[0] || !strings.HasPrefix(pod.Status.Message, want[1]) {
			t.Errorf("pod %s was refused with %s: %q, want %q", name, pod.Status.Reason, pod.Status.Message, want)
		}
		c.hasEvent(name, want[0]+": "+strings.TrimPrefix(want[1], "Pod was rejected: "))
	}
}

// badRequests: people ask for what is not there.
func badRequests(t *testing.T, c *cluster) {
	c.apply(manifest("box", `containers: [{name: c, image: "demo:1"}]`))
	c.running("box")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"exec", "box", "-c", "none", "--", "/demo"}, "container none is not valid for pod box"},
		{[]string{"exec", "nobox", "--", "/demo"}, `pods "nobox" not found`},
		{[]string{"exec", "box", "--", "/no/such/program"}, "no such file or directory"},
		{[]string{"logs", "box", "-c", "none"}, "container none is not valid for pod box"},
		{[]string{"logs", "--previous", "box"}, `previous terminated container "c" in pod "box" not found`},
		{[]string{"attach", "box", "-c", "none"}, "none"},
		{[]string{"port-forward", "pod/nobox", "8080"}, `pods "nobox" not found`},
	} {
		if said := c.KubectlFails("", test.args...); !strings.Contains(said, test.want) {
			t.Errorf("kubectl %s says %q, want %q", strings.Join(test.args, " "), said, test.want)
		}
	}
}
