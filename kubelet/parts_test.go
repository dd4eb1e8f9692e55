package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/internal/eventually"
	"vigil/kubelet"
	"vigil/kubelet/simulated"
)

// diary has what was asked of a node's parts, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// read returns all lines so far that are about one of the words.
func (d *diary) read(words ...string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for _, line := range d.lines {
		if word, _, _ := strings.Cut(line, " "); slices.Contains(words, word) {
			found = append(found, line)
		}
	}
	return strings.Join(found, ", ")
}

// recorded is a simulated runtime that writes a diary. It is a node's parts, too: they do nothing but write.
type recorded struct {
	*simulated.Runtime
	diary *diary

	mu       sync.Mutex
	names    map[string]string // of containers, by ID
	mountErr error
	dead     types.UID // pod whose sandbox has died
	hook     func(command []string) (code int, err error)
}

func record() *recorded {
	return &recorded{Runtime: simulated.New(network), diary: &diary{}, names: map[string]string{}}
}

func (r *recorded) replaceParts(config *kubelet.Config) {
	config.Parts = kubelet.Parts{Volumes: volumes{r}, Cgroups: cgroups{r}, HostPorts: hostPorts{r}}
}

func (r *recorded) name(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names[id]
}

func (r *recorded) RunSandbox(ctx context.Context, p *corev1.Pod, options kubelet.SandboxOptions) (*kubelet.Sandbox, error) {
	r.diary.write("sandbox in %s", options.CgroupParent)
	r.mu.Lock()
	r.dead = ""
	r.mu.Unlock()
	return r.Runtime.RunSandbox(ctx, p, options)
}

func (r *recorded) CreateContainer(ctx context.Context, p *corev1.Pod, c *corev1.Container, options kubelet.ContainerOptions) (string, error) {
	id, err := r.Runtime.CreateContainer(ctx, p, c, options)
	r.mu.Lock()
	r.names[id] = c.Name
	r.mu.Unlock()
	r.diary.write("create %s %d", c.Name, options.Attempt)
	return id, err
}

func (r *recorded) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	r.diary.write("stop %s %v", r.name(id), grace.Round(time.Second))
	return r.Runtime.StopContainer(ctx, id, grace)
}

func (r *recorded) Pod(ctx context.Context, uid types.UID) (*kubelet.Sandbox, []*kubelet.Container, error) {
	sandbox, containers, err := r.Runtime.Pod(ctx, uid)
	r.mu.Lock()
	defer r.mu.Unlock()
	if sandbox != nil && r.dead == uid {
		sandbox.Ready = false
	}
	return sandbox, containers, err
}

func (r *recorded) StopSandbox(ctx context.Context, uid types.UID) error {
	r.diary.write("stop sandbox")
	return r.Runtime.StopSandbox(ctx, uid)
}

func (r *recorded) RemovePod(ctx context.Context, uid types.UID) error {
	r.diary.write("remove")
	return r.Runtime.RemovePod(ctx, uid)
}

func (r *recorded) RemoveContainer(ctx context.Context, id string) error {
	r.diary.write("remove %s", r.name(id))
	return r.Runtime.RemoveContainer(ctx, id)
}

func (r *recorded) ResizeContainer(ctx context.Context, p *corev1.Pod, c *corev1.Container, id string) error {
	r.diary.write("resize %s to %s", c.Name, c.Resources.Requests.Cpu())
	return r.Runtime.ResizeContainer(ctx, p, c, id)
}

func (r *recorded) Exec(ctx context.Context, id string, command []string, timeout time.Duration, limit int) ([]byte, int, error) {
	r.diary.write("exec %s in %s", strings.Join(command, " "), r.name(id))
	if r.hook != nil {
		code, err := r.hook(command)
		return nil, code, err
	}
	return nil, 0, nil
}

type volumes struct{ *recorded }

func (v volumes) Mount(context.Context, *corev1.Pod) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.diary.write("mount")
	return v.mountErr
}

func (volumes) Mounts(context.Context, *corev1.Pod, *corev1.Container) ([]kubelet.Mount, func(), error) {
	return nil, nil, nil
}
func (volumes) Groups(*corev1.Pod) []int64 { return nil }
func (volumes) Devices(context.Context, *corev1.Pod, *corev1.Container) ([]kubelet.Device, error) {
	return nil, nil
}

func (v volumes) Unmount(context.Context, types.UID) error {
	v.diary.write("unmount")
	return nil
}
func (volumes) Pods() ([]types.UID, error) { return nil, nil }

func (volumes) Run(ctx context.Context, _ func(types.UID)) error {
	<-ctx.Done()
	return ctx.Err()
}

type cgroups struct{ *recorded }

func (c cgroups) Ensure(pod *corev1.Pod) (string, error) {
	total := resource.Quantity{}
	for i := range pod.Spec.Containers {
		total.Add(*pod.Spec.Containers[i].Resources.Requests.Cpu())
	}
	c.diary.write("cgroup for %s", total.String())
	return "/kubepods", nil
}

func (c cgroups) Remove(types.UID) error {
	c.diary.write("free cgroup")
	return nil
}
func (cgroups) Pods() ([]types.UID, error) { return nil, nil }

type hostPorts struct{ *recorded }

func (h hostPorts) Set(_ context.Context, _ *corev1.Pod, ips []netip.Addr) error {
	h.diary.write("ports to %d", len(ips))
	return nil
}

func (h hostPorts) Remove(context.Context, types.UID) error {
	h.diary.write("ports gone")
	return nil
}

func (h hostPorts) Pods() []types.UID { return nil }

func expectDiary(t *testing.T, r *recorded, want string, words ...string) {
	t.Helper()
	eventually.Nil(t, want, says(func() bool { return r.diary.read(words...) == want }, func() string { return "it says " + r.diary.read(words...) }))
}

func TestParts_ComeAndGoInOrder(t *testing.T) {
	c, r := startCluster(t), record()
	c.run(t, r, r.replaceParts)
	c.create(t, "p", func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	})
	c.waitPhase(t, "p", corev1.PodRunning)
	if got, want := r.diary.read("cgroup", "sandbox", "ports", "create"), "cgroup for 0, sandbox in /kubepods, ports to 1, create c 0"; got != want {
		t.Errorf("start: %s", got)
	}
	c.remove(t, "p", 1)
	c.waitGone(t, "p")
	expectDiary(t, r, "ports to 1, stop c 2s, stop sandbox, unmount, ports gone, remove", "ports", "stop", "unmount", "remove")
}

// forgetful is a runtime that forgets a pod when it is told to.
type forgetful struct {
	*recorded
	forget chan struct{}
}

func (r forgetful) RemovePod(ctx context.Context, uid types.UID) error {
	<-r.forget
	return r.recorded.RemovePod(ctx, uid)
}

func TestDeletion_DoesNotWaitForTheRuntimeToForget(t *testing.T) {
	c, r := startCluster(t), forgetful{record(), make(chan struct{})}
	c.run(t, r, r.replaceParts)
	c.create(t, "p", nil)
	c.waitPhase(t, "p", corev1.PodRunning)
	c.remove(t, "p", 1)
	c.waitGone(t, "p")
	if got := r.diary.read("stop", "unmount", "remove"); got != "stop c 2s, stop sandbox, unmount" {
		t.Errorf("when it was gone: %s", got)
	}
	close(r.forget)
	expectDiary(t, r.recorded, "remove", "remove")
}

func TestParts_GoWhenThePodIsDone(t *testing.T) {
	c, r := startCluster(t), record()
	c.run(t, r, r.replaceParts)
	c.create(t, "p", func(p *corev1.Pod) {
		script("true")(p)
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	c.waitPhase(t, "p", corev1.PodSucceeded)
	expectDiary(t, r, "unmount, free cgroup", "unmount", "free")
}

func TestVolumes_AreWaitedFor(t *testing.T) {
	c, r := startCluster(t), record()
	r.mountErr = &kubelet.VolumeError{Messages: []string{"MountVolume.SetUp failed for volume \"v\" : no"}, Again: 10 * time.Millisecond}
	c.run(t, r, r.replaceParts)
	c.create(t, "p", nil)
	c.hasEvent(t, "p", "FailedMount", "MountVolume.SetUp failed for volume \"v\" : no")
	if got := r.diary.read("sandbox"); got != "" {
		t.Errorf("did not wait: %s", got)
	}
	pod := c.wait(t, "p", "says that it waits", func(p *corev1.Pod) bool { return only(p).State.Waiting != nil })
	if pod.Status.Phase != corev1.PodPending || only(pod).State.Waiting.Reason != "ContainerCreating" {
		t.Errorf("status: %+v", pod.Status)
	}
	r.mu.Lock()
	r.mountErr = nil
	r.mu.Unlock()
	c.waitPhase(t, "p", corev1.PodRunning)
}

func exec(command ...string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}
}

func TestHooks_RunWithinTheGrace(t *testing.T) {
	c, r := startCluster(t), record()
	always := corev1.ContainerRestartPolicyAlways
	c.run(t, r, nil)
	c.create(t, "p", func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{
			{Name: "s1", Image: "image", RestartPolicy: &always, Lifecycle: &corev1.Lifecycle{PreStop: exec("s1")}},
			{Name: "s2", Image: "image", RestartPolicy: &always},
		}
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: exec("begin"), PreStop: exec("end")}
	})
	c.waitPhase(t, "p", corev1.PodRunning)
	if got := r.diary.read("create", "exec"); got != "create s1 0, create s2 0, create c 0, exec begin in c" {
		t.Errorf("start: %s", got)
	}
	c.remove(t, "p", 30)
	c.waitGone(t, "p")
	if got := r.diary.read("stop"); got != "stop c 30s, stop s2 30s, stop s1 30s, stop sandbox" {
		t.Errorf("end: %s", got)
	}
	if got := r.diary.read("exec"); !strings.Contains(got, "exec s1 in s1") || !strings.Contains(got, "exec end in c") {
		t.Errorf("hooks: %s", got)
	}
}

func TestHooks_ThatFail(t *testing.T) {
	c, r := startCluster(t), record()
	r.hook = func(command []string) (int, error) {
		if command[0] == "broken" {
			return 0, errors.New("no such thing")
		}
		return 7, nil
	}
	c.run(t, r, nil)
	c.create(t, "begin", func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: exec("fails")}
	})
	c.hasEvent(t, "begin", "FailedPostStartHook", "PostStartHook failed")
	c.hasEvent(t, "begin", "Killing", "FailedPostStartHook")
	c.wait(t, "begin", "is over", func(p *corev1.Pod) bool { return only(p).State.Terminated != nil })
	c.create(t, "end", func(p *corev1.Pod) { p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: exec("broken")} })
	c.waitPhase(t, "end", corev1.PodRunning)
	c.remove(t, "end", 5)
	c.hasEvent(t, "end", "FailedPreStopHook", "PreStopHook failed")
	c.waitGone(t, "end")
}

// die is the end of a sandbox that nobody has asked for: its containers run on.
func (r *recorded) die(uid types.UID) {
	r.mu.Lock()
	r.dead = uid
	r.mu.Unlock()
}

// A pod that comes back under its UID, as after a list that was behind, is not lost.
func TestPod_ComesBack(t *testing.T) {
	c, r := startCluster(t), record()
	k := c.start(t, r, r.replaceParts)
	c.create(t, "p", nil)
	first := c.waitPhase(t, "p", corev1.PodRunning)
	k.Gone(first)
	expectDiary(t, r, "sandbox in /kubepods, remove, sandbox in /kubepods", "sandbox", "remove")
	c.wait(t, "p", "runs again", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && only(p).Ready && only(p).ContainerID != only(first).ContainerID
	})
}

func TestSandbox_Dies(t *testing.T) {
	c, r := startCluster(t), record()
	r.hook = func([]string) (int, error) { return 0, nil }
	k := c.start(t, r, r.replaceParts)
	c.create(t, "again", func(p *corev1.Pod) { p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: exec("bye")} })
	r.die(c.waitPhase(t, "again", corev1.PodRunning).UID)
	k.LookAtAll()
	expectDiary(t, r, "sandbox in /kubepods, create c 0, exec bye in c, stop c 30s, stop sandbox, sandbox in /kubepods, create c 1", "sandbox", "create", "exec", "stop")
}

func TestSandbox_DiesWithAllContainers(t *testing.T) {
	c, r := startCluster(t), record()
	k := c.start(t, r, r.replaceParts)
	c.create(t, "over", func(p *corev1.Pod) {
		script("sleep 0.5; exit 1")(p)
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	r.die(c.waitPhase(t, "over", corev1.PodRunning).UID)
	c.waitPhase(t, "over", corev1.PodFailed)
	k.LookAtAll()
	expectDiary(t, r, "sandbox in /kubepods, stop sandbox, unmount, free cgroup", "sandbox", "stop", "unmount", "free")
}

func TestLiveness_BacksOff(t *testing.T) {
	c, r := startCluster(t), record()
	r.hook = func([]string) (int, error) { return 1, nil }
	c.run(t, r, func(config *kubelet.Config) { config.RootDir = t.TempDir() })
	c.create(t, "p", func(p *corev1.Pod) {
		p.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"dead"}}}, PeriodSeconds: 1, FailureThreshold: 1}
	})
	pod := c.wait(t, "p", "backs off", func(p *corev1.Pod) bool {
		s := only(p).State.Waiting
		return s != nil && s.Reason == "CrashLoopBackOff"
	})
	if only(pod).RestartCount != 1 || r.diary.read("create") != "create c 0, create c 1" {
		t.Errorf("status %+v, %s", only(pod), r.diary.read("create"))
	}
	c.hasEvent(t, "p", "BackOff", "Back-off restarting failed container c in pod p_default("+string(pod.UID)+")")
}

func TestEphemeralContainers(t *testing.T) {
	c, r := startCluster(t), record()
	c.run(t, r, nil)
	c.create(t, "p", nil)
	pod := c.waitPhase(t, "p", corev1.PodRunning)
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "tools", Command: []string{"sleep", "0.1"}}, TargetContainerName: "c",
	}}
	if _, err := c.client.CoreV1().Pods("default").UpdateEphemeralContainers(t.Context(), "p", pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod = c.wait(t, "p", "was debugged", func(p *corev1.Pod) bool {
		return len(p.Status.EphemeralContainerStatuses) == 1 && p.Status.EphemeralContainerStatuses[0].State.Terminated != nil
	})
	if pod.Status.Phase != corev1.PodRunning || only(pod).RestartCount != 0 || r.diary.read("create") != "create c 0, create debug 0" {
		t.Errorf("status %+v, %s", pod.Status, r.diary.read("create"))
	}
}

func TestRestartAllContainers(t *testing.T) {
	c, r := startCluster(t), record()
	never := corev1.ContainerRestartPolicyNever
	c.run(t, r, nil)
	c.create(t, "p", func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "image", Command: []string{"true"}}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: "watcher", Image: "image", Command: []string{"sh", "-c", "sleep 1; exit 88"}, RestartPolicy: &never,
			RestartPolicyRules: []corev1.ContainerRestartRule{{
				Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{88}},
			}},
		})
	})
	expectDiary(t, r, "create i 0, create c 0, create watcher 0, create i 1, create c 1, create watcher 1", "create")
	pod := c.wait(t, "p", "runs again", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) == 2 && p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].Ready
	})
	if len(pod.Status.InitContainerStatuses) != 1 || pod.Status.InitContainerStatuses[0].RestartCount != 1 {
		t.Errorf("init: %+v", pod.Status.InitContainerStatuses)
	}
	if got := r.diary.read("sandbox"); got != "sandbox in " {
		t.Errorf("the sandbox does not stay: %s", got)
	}
}

func TestEvict(t *testing.T) {
	c, r := startCluster(t), record()
	k := c.start(t, r, nil)
	made := c.create(t, "p", nil)
	c.waitPhase(t, "p", corev1.PodRunning)
	grace := 4 * time.Second
	err := k.Evict(t.Context(), made.UID, kubelet.Eviction{
		Reason: "Evicted", Message: "The node was low on resource: memory. ", Grace: &grace,
		Condition: &corev1.PodCondition{Type: corev1.DisruptionTarget, Reason: "TerminationByKubelet", Message: "The node was low on resource: memory. "},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.diary.read("stop"); got != "stop c 4s, stop sandbox" {
		t.Errorf("when it was over: %s", got)
	}
	pod := c.waitPhase(t, "p", corev1.PodFailed)
	if pod.Status.Reason != "Evicted" || pod.Status.Message != "The node was low on resource: memory. " || !has(pod, corev1.DisruptionTarget, corev1.ConditionTrue) {
		t.Errorf("status: %+v", pod.Status)
	}
	if err := k.Evict(t.Context(), made.UID, kubelet.Eviction{Reason: "Again"}); err != nil {
		t.Errorf("a pod that has ended: %v", err)
	}
	c.create(t, "done", func(p *corev1.Pod) {
		script("true")(p)
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	if err := k.Evict(t.Context(), c.waitPhase(t, "done", corev1.PodSucceeded).UID, kubelet.Eviction{Reason: "Late"}); err != nil {
		t.Errorf("a pod that is done: %v", err)
	}
	if err := k.Evict(t.Context(), "nobody", kubelet.Eviction{}); err != nil {
		t.Errorf("a pod that is not there: %v", err)
	}
}

func TestResize(t *testing.T) {
	c, r := startCluster(t), record()
	c.run(t, r, func(config *kubelet.Config) {
		r.replaceParts(config)
		config.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi"), corev1.ResourcePods: resource.MustParse("9")}
	})
	c.create(t, "p", wanting("100m", nil))
	pod := c.waitPhase(t, "p", corev1.PodRunning)
	ask := func(amount string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":%q}}}]}}`, amount)
		if _, err := c.client.CoreV1().Pods("default").Patch(t.Context(), "p", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize"); err != nil {
			t.Fatal(err)
		}
	}
	runsWith := func(amount string) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			s := only(p)
			want := resource.MustParse(amount)
			return s.Resources != nil && s.Resources.Requests.Cpu().Equal(want) && s.AllocatedResources.Cpu().Equal(want)
		}
	}
	if !runsWith("100m")(pod) {
		t.Errorf("status: %+v", only(pod))
	}
	ask("500m")
	c.wait(t, "p", "is larger", runsWith("500m"))
	expectDiary(t, r, "cgroup for 100m, cgroup for 500m, resize c to 500m, cgroup for 500m", "cgroup", "resize")
	ask("200m")
	c.wait(t, "p", "is smaller", func(p *corev1.Pod) bool {
		return runsWith("200m")(p) && !has(p, corev1.PodResizeInProgress, corev1.ConditionTrue)
	})
	expectDiary(t, r, "cgroup for 100m, cgroup for 500m, resize c to 500m, cgroup for 500m, cgroup for 500m, resize c to 200m, cgroup for 200m", "cgroup", "resize")
	ask("50")
	pod = c.wait(t, "p", "is told that it cannot be", func(p *corev1.Pod) bool { return has(p, corev1.PodResizePending, corev1.ConditionTrue) })
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	if got := pod.Status.Conditions[at]; got.Reason != "Infeasible" || got.Message != "Node didn't have enough capacity: cpu, requested: 50000, capacity: 2000" {
		t.Errorf("condition: %+v", got)
	}
	if !runsWith("200m")(pod) {
		t.Errorf("status: %+v", only(pod))
	}
	ask("200m")
	c.wait(t, "p", "has what it asks for", func(p *corev1.Pod) bool { return !has(p, corev1.PodResizePending, corev1.ConditionTrue) })
	if only(c.get(t, "p")).RestartCount != 0 {
		t.Error("it was restarted")
	}
	c.hasEvent(t, "p", "ResizeStarted", `Pod resize started: {"containers":[{"name":"c","resources":{"requests":{"cpu":"500m"}}}],"generation":2}`)
	c.hasEvent(t, "p", "ResizeCompleted", `Pod resize completed: {"containers":[{"name":"c","resources":{"requests":{"cpu":"500m"}}}],"generation":2}`)
	c.hasEvent(t, "p", "ResizeCompleted", `Pod resize completed: {"containers":[{"name":"c","resources":{"requests":{"cpu":"200m"}}}],"generation":3}`)
	c.hasEvent(t, "p", "ResizeInfeasible", `Pod resize Infeasible: {"containers":[{"name":"c","resources":{"requests":{"cpu":"50"}}}],"generation":4,`+
		`"error":"Node didn't have enough capacity: cpu, requested: 50000, capacity: 2000"}`)
}

func TestResize_AllocationsOutliveTheKubelet(t *testing.T) {
	c, r, dir := startCluster(t), record(), t.TempDir()
	change := func(config *kubelet.Config) { config.RootDir = dir }
	stop := c.run(t, r, change)
	c.create(t, "p", wanting("100m", nil))
	c.waitPhase(t, "p", corev1.PodRunning)
	stop()
	patch := []byte(`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"300m"}}}]}}`)
	if _, err := c.client.CoreV1().Pods("default").Patch(t.Context(), "p", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatal(err)
	}
	c.run(t, r, change)
	expectDiary(t, r, "resize c to 300m", "resize")
	c.wait(t, "p", "runs with more", func(p *corev1.Pod) bool {
		return only(p).Resources != nil && only(p).Resources.Requests.Cpu().String() == "300m"
	})
}
