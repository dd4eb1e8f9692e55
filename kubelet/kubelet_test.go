package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver/apiservertest"
	"vigil/internal/eventually"
	"vigil/kubelet"
	"vigil/kubelet/simulated"
)

// network is that of a node's pods.
var network = netip.MustParsePrefix("10.244.1.0/24")

// cluster is an API server with the namespaces that the tests need.
type cluster struct {
	*apiservertest.Server
	client *kubernetes.Clientset
}

func startCluster(t testing.TB) cluster {
	t.Helper()
	server := apiservertest.Start(t)
	c := cluster{server, server.Clientset()}
	for _, name := range []string{corev1.NamespaceNodeLease, "default"} {
		_, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	return c
}

// run runs a kubelet until the returned function is called or the test ends.
func (c cluster) run(t testing.TB, runtime kubelet.Runtime, change func(*kubelet.Config)) (stop func()) {
	t.Helper()
	_, stop = c.launch(t, runtime, change)
	return stop
}

// start is run for those who want the kubelet.
func (c cluster) start(t testing.TB, runtime kubelet.Runtime, change func(*kubelet.Config)) *kubelet.Kubelet {
	t.Helper()
	k, _ := c.launch(t, runtime, change)
	return k
}

func (c cluster) launch(t testing.TB, runtime kubelet.Runtime, change func(*kubelet.Config)) (k *kubelet.Kubelet, stop func()) {
	t.Helper()
	config := kubelet.Config{
		Server: c.Client("system:node:node-1", "system:nodes", "system:masters"), NodeName: "node-1", Runtime: runtime, Version: "v1.37.2",
		Addresses:             []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
		Logger:                slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		StatusUpdateFrequency: 100 * time.Millisecond,
	}
	if change != nil {
		change(&config)
	}
	k, err := kubelet.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("kubelet ended: %v", err)
		}
	}
	t.Cleanup(stop)
	return k, stop
}

func (c cluster) create(t testing.TB, name string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
	if change != nil {
		change(pod)
	}
	made, err := c.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (c cluster) remove(t testing.TB, name string, grace int64) {
	t.Helper()
	if err := c.client.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
}

// get returns a pod, nil when it is gone.
func (c cluster) get(t testing.TB, name string) *corev1.Pod {
	t.Helper()
	pod, err := c.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// wait waits until a pod is as it should be, and returns it. The pod is nil when it is gone.
func (c cluster) wait(t testing.TB, name, what string, holds func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually.Nil(t, name+" "+what, says(func() bool {
		pod = c.get(t, name)
		return holds(pod)
	}, func() string {
		if pod == nil {
			return "it is gone"
		}
		return fmt.Sprintf("its status is %+v", pod.Status)
	}))
	return pod
}

func (c cluster) waitPhase(t testing.TB, name string, phase corev1.PodPhase) *corev1.Pod {
	t.Helper()
	return c.wait(t, name, string(phase), func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == phase })
}

func (c cluster) waitGone(t testing.TB, name string) {
	t.Helper()
	c.wait(t, name, "is gone", func(p *corev1.Pod) bool { return p == nil })
}

func (c cluster) hasEvent(t testing.TB, pod, reason, message string) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("event %s %q", reason, message), func() bool {
		events, err := c.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Reason == reason && e.Message == message })
	})
}

// says makes a check that fails with what is the case.
func says(holds func() bool, is func() string) func() error {
	return func() error {
		if holds() {
			return nil
		}
		return errors.New(is())
	}
}

func script(line string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"sh", "-c", line} }
}

func only(p *corev1.Pod) corev1.ContainerStatus {
	if p == nil || len(p.Status.ContainerStatuses) != 1 {
		return corev1.ContainerStatus{}
	}
	return p.Status.ContainerStatuses[0]
}

func has(p *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == status })
}

func TestPods(t *testing.T) {
	c := startCluster(t)
	runtime := simulated.New(network)
	c.run(t, runtime, nil)
	for name, tell := range map[string]func(*testing.T, cluster, string){
		"runs":                        podRuns,
		"succeeds":                    podSucceeds,
		"fails":                       podFails,
		"crashes":                     podCrashes,
		"waits-for-its-image":         podWaitsForItsImage,
		"changes-its-image":           podChangesItsImage,
		"has-init-and-sidecar":        podHasInitAndSidecar,
		"fails-in-init":               podFailsInInit,
		"passes-its-deadline":         podPassesItsDeadline,
		"is-deleted":                  podIsDeleted,
		"is-held-by-a-finalizer":      podIsHeldByAFinalizer,
		"is-evicted":                  podIsEvicted,
		"keeps-conditions-of-others":  podKeepsConditionsOfOthers,
		"is-deleted-after-it-is-done": podIsDeletedWhenDone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tell(t, c, name)
		})
	}
	t.Run("is deleted by force", func(t *testing.T) {
		made := c.create(t, "forced", nil)
		c.waitPhase(t, "forced", corev1.PodRunning)
		c.remove(t, "forced", 0)
		c.waitGone(t, "forced")
		eventually.True(t, "the runtime forgets the pod", func() bool {
			pods, err := runtime.Pods(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return !slices.ContainsFunc(pods, func(p kubelet.PodReference) bool { return p.UID == made.UID })
		})
	})
}

func podRuns(t *testing.T, c cluster, name string) {
	c.create(t, name, nil)
	pod := c.waitPhase(t, name, corev1.PodRunning)
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || !network.Contains(ip) || len(pod.Status.PodIPs) != 1 || pod.Status.HostIP != "192.0.2.1" || pod.Status.StartTime == nil {
		t.Errorf("status: %+v", pod.Status)
	}
	s := only(pod)
	if !s.Ready || !*s.Started || s.RestartCount != 0 || s.State.Running == nil || s.ContainerID == "" || s.Image != "image" {
		t.Errorf("container: %+v", s)
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady, corev1.PodScheduled} {
		if !has(pod, kind, corev1.ConditionTrue) {
			t.Errorf("condition %s is not true", kind)
		}
	}
	c.hasEvent(t, name, "Pulled", `Container image "image" already present on machine and can be accessed by the pod`)
	c.hasEvent(t, name, "Created", "Container created")
	c.hasEvent(t, name, "Started", "Container started")
}

func podSucceeds(t *testing.T, c cluster, name string) {
	c.create(t, name, func(p *corev1.Pod) {
		script("sleep 0.1")(p)
		p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	})
	pod := c.waitPhase(t, name, corev1.PodSucceeded)
	if end := only(pod).State.Terminated; end == nil || end.ExitCode != 0 || end.Reason != "Completed" || end.FinishedAt.IsZero() {
		t.Errorf("container: %+v", only(pod).State)
	}
	c.wait(t, name, "has no sandbox any more", func(p *corev1.Pod) bool {
		return has(p, corev1.PodReadyToStartContainers, corev1.ConditionFalse) && has(p, corev1.PodReady, corev1.ConditionFalse) && p.Status.Phase == corev1.PodSucceeded
	})
}

func podFails(t *testing.T, c cluster, name string) {
	c.create(t, name, func(p *corev1.Pod) {
		script("exit 3")(p)
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	pod := c.waitPhase(t, name, corev1.PodFailed)
	if end := only(pod).State.Terminated; end == nil || end.ExitCode != 3 || end.Reason != "Error" || only(pod).RestartCount != 0 {
		t.Errorf("container: %+v", only(pod))
	}
}

func podCrashes(t *testing.T, c cluster, name string) {
	c.create(t, name, script("exit 1"))
	pod := c.wait(t, name, "backs off", func(p *corev1.Pod) bool {
		w := only(p).State.Waiting
		return w != nil && w.Reason == "CrashLoopBackOff"
	})
	s := only(pod)
	if pod.Status.Phase != corev1.PodRunning || s.RestartCount != 1 || s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ExitCode != 1 {
		t.Errorf("status: %+v", pod.Status)
	}
	if want := fmt.Sprintf("back-off 10s restarting failed container=c pod=%s_default(%s)", name, pod.UID); s.State.Waiting.Message != want {
		t.Errorf("message: %s", s.State.Waiting.Message)
	}
	c.hasEvent(t, name, "BackOff", fmt.Sprintf("Back-off restarting failed container c in pod %s_default(%s)", name, pod.UID))
}

func podWaitsForItsImage(t *testing.T, c cluster, name string) {
	c.create(t, name, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "registry/does-not-exist" })
	reason := func(reason string) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			w := only(p).State.Waiting
			return w != nil && w.Reason == reason && p.Status.Phase == corev1.PodPending
		}
	}
	c.wait(t, name, "says why", reason("ErrImagePull"))
	c.hasEvent(t, name, "Failed", "Error: ErrImagePull")
	c.wait(t, name, "backs off", reason("ImagePullBackOff"))
	c.image(t, name, "good")
	c.waitPhase(t, name, corev1.PodRunning)
}

func (c cluster) image(t *testing.T, name, image string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"containers":[{"name":"c","image":%q}]}}`, image)
	if _, err := c.client.CoreV1().Pods("default").Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func podChangesItsImage(t *testing.T, c cluster, name string) {
	c.create(t, name, nil)
	before := only(c.waitPhase(t, name, corev1.PodRunning))
	c.image(t, name, "other")
	after := only(c.wait(t, name, "runs the other image", func(p *corev1.Pod) bool {
		return only(p).Image == "other" && only(p).State.Running != nil
	}))
	if after.RestartCount != 1 || after.ContainerID == before.ContainerID {
		t.Errorf("container: %+v", after)
	}
	c.hasEvent(t, name, "Killing", "Container c definition changed, will be restarted")
}

func podHasInitAndSidecar(t *testing.T, c cluster, name string) {
	restart := corev1.ContainerRestartPolicyAlways
	c.create(t, name, func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.InitContainers = []corev1.Container{
			{Name: "first", Image: "image", Command: []string{"sleep", "0.1"}},
			{Name: "helper", Image: "image", RestartPolicy: &restart},
			{Name: "last", Image: "image", Command: []string{"true"}},
		}
		script("sleep 0.2")(p)
	})
	pod := c.waitPhase(t, name, corev1.PodSucceeded)
	started, ended := map[string]time.Time{}, map[string]time.Time{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.State.Terminated == nil || s.RestartCount != 0 {
			t.Fatalf("container %s: %+v", s.Name, s)
		}
		started[s.Name], ended[s.Name] = s.State.Terminated.StartedAt.Time, s.State.Terminated.FinishedAt.Time
	}
	if started["helper"].Before(ended["first"]) || started["c"].Before(ended["first"]) || ended["helper"].Before(ended["c"]) {
		t.Errorf("started %v, ended %v", started, ended)
	}
}

func podFailsInInit(t *testing.T, c cluster, name string) {
	c.create(t, name, func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "image", Command: []string{"false"}}}
	})
	pod := c.waitPhase(t, name, corev1.PodFailed)
	if w := only(pod).State.Waiting; w == nil || w.Reason != "PodInitializing" || !has(pod, corev1.PodInitialized, corev1.ConditionFalse) {
		t.Errorf("status: %+v", pod.Status)
	}
}

func podPassesItsDeadline(t *testing.T, c cluster, name string) {
	c.create(t, name, func(p *corev1.Pod) {
		p.Spec.ActiveDeadlineSeconds = new(int64)
		*p.Spec.ActiveDeadlineSeconds = 1
	})
	pod := c.waitPhase(t, name, corev1.PodFailed)
	if pod.Status.Reason != "DeadlineExceeded" || pod.Status.Message != "Pod was active on the node longer than the specified deadline" || only(pod).State.Terminated == nil {
		t.Errorf("status: %+v", pod.Status)
	}
}

func podIsDeleted(t *testing.T, c cluster, name string) {
	c.create(t, name, nil)
	pod := c.waitPhase(t, name, corev1.PodRunning)
	w, err := c.client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: pod.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	c.remove(t, name, 30)
	var last *corev1.Pod
	for e := range w.ResultChan() {
		last = e.Object.(*corev1.Pod)
		if e.Type == "DELETED" {
			break
		}
	}
	if last == nil || last.Status.Phase != corev1.PodSucceeded || only(last).State.Terminated == nil {
		t.Errorf("the last that was seen: %+v", last)
	}
	c.hasEvent(t, name, "Killing", "Stopping container c")
}

func podIsHeldByAFinalizer(t *testing.T, c cluster, name string) {
	c.create(t, name, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} })
	c.waitPhase(t, name, corev1.PodRunning)
	c.remove(t, name, 1)
	c.wait(t, name, "has ended and is asked to go at once", func(p *corev1.Pod) bool {
		return p != nil && p.Status.Phase == corev1.PodSucceeded && *p.DeletionGracePeriodSeconds == 0
	})
	if _, err := c.client.CoreV1().Pods("default").Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitGone(t, name)
}

func podIsEvicted(t *testing.T, c cluster, name string) {
	c.create(t, name, nil)
	c.waitPhase(t, name, corev1.PodRunning)
	patch := []byte(`{"status":{"phase":"Failed","reason":"Evicted"}}`)
	if _, err := c.client.CoreV1().Pods("default").Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	pod := c.wait(t, name, "is stopped", func(p *corev1.Pod) bool { return only(p).State.Terminated != nil })
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Evicted" {
		t.Errorf("status: %+v", pod.Status)
	}
}

func podKeepsConditionsOfOthers(t *testing.T, c cluster, name string) {
	c.create(t, name, func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/open"}}
	})
	pod := c.wait(t, name, "runs", func(p *corev1.Pod) bool { return has(p, corev1.ContainersReady, corev1.ConditionTrue) })
	if !has(pod, corev1.PodReady, corev1.ConditionFalse) {
		t.Errorf("ready before the gate is open: %+v", pod.Status.Conditions)
	}
	patch := []byte(`{"status":{"conditions":[{"type":"example.com/open","status":"True"},{"type":"ContainersReady","status":"Unknown"}]}}`)
	if _, err := c.client.CoreV1().Pods("default").Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	c.wait(t, name, "is ready, and its own condition is put right", func(p *corev1.Pod) bool {
		return has(p, corev1.PodReady, corev1.ConditionTrue) && has(p, "example.com/open", corev1.ConditionTrue) && has(p, corev1.ContainersReady, corev1.ConditionTrue)
	})
}

func podIsDeletedWhenDone(t *testing.T, c cluster, name string) {
	c.create(t, name, func(p *corev1.Pod) {
		script("true")(p)
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	c.waitPhase(t, name, corev1.PodSucceeded)
	c.remove(t, name, 30)
	c.waitGone(t, name)
}

func TestKubelet_TakesUpWhatRuns(t *testing.T) {
	c := startCluster(t)
	stop := c.run(t, simulated.New(network), nil)
	c.create(t, "stays", nil)
	c.create(t, "goes", nil)
	c.create(t, "done", func(p *corev1.Pod) {
		script("true")(p)
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	before := c.waitPhase(t, "stays", corev1.PodRunning)
	c.waitPhase(t, "goes", corev1.PodRunning)
	done := c.waitPhase(t, "done", corev1.PodSucceeded)
	stop()
	c.remove(t, "goes", 30)
	c.create(t, "new", nil)

	c.run(t, simulated.New(network), nil)
	c.waitGone(t, "goes")
	c.waitPhase(t, "new", corev1.PodRunning)
	after := c.get(t, "stays")
	if only(after).ContainerID != only(before).ContainerID || only(after).RestartCount != 0 || after.Status.PodIP != before.Status.PodIP || after.Status.Phase != corev1.PodRunning {
		t.Errorf("before: %+v\nafter: %+v", before.Status, after.Status)
	}
	if after := c.get(t, "done"); after.Status.Phase != corev1.PodSucceeded || !has(after, corev1.PodInitialized, corev1.ConditionTrue) || only(after).State.Terminated == nil {
		t.Errorf("a finished pod was changed: %+v\nbefore: %+v", after.Status, done.Status)
	}
	if new := c.get(t, "new"); new.Status.PodIP == after.Status.PodIP {
		t.Errorf("two pods have %s", new.Status.PodIP)
	}
}

func TestKubelet_RemovesOrphans(t *testing.T) {
	c := startCluster(t)
	runtime := simulated.New(network)
	stop := c.run(t, runtime, nil)
	c.create(t, "stays", nil)
	c.create(t, "goes", nil)
	stays := c.waitPhase(t, "stays", corev1.PodRunning)
	c.waitPhase(t, "goes", corev1.PodRunning)
	stop()
	c.remove(t, "goes", 0)
	c.run(t, runtime, nil)
	eventually.True(t, "the runtime has one pod", func() bool {
		pods, err := runtime.Pods(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.Equal(pods, []kubelet.PodReference{{UID: stays.UID, Namespace: stays.Namespace, Name: stays.Name}})
	})
}

// stubborn is a runtime whose containers end only when they are killed.
type stubborn struct {
	*simulated.Runtime
	asked chan time.Duration // the grace of each stop
}

func (s stubborn) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	s.asked <- grace
	select {
	case <-time.After(grace):
		return s.Runtime.StopContainer(ctx, id, grace)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestDeletion_CanBeShortened(t *testing.T) {
	c := startCluster(t)
	runtime := stubborn{simulated.New(network), make(chan time.Duration, 9)}
	c.run(t, runtime, nil)
	c.create(t, "p", nil)
	c.waitPhase(t, "p", corev1.PodRunning)
	expect := func(want time.Duration) {
		t.Helper()
		select {
		case got := <-runtime.asked:
			if got != want {
				t.Errorf("asked to end within %v, want %v", got, want)
			}
		case <-time.After(5 * time.Minute):
			t.Fatalf("not asked to end within %v", want)
		}
	}
	c.remove(t, "p", 3600)
	expect(time.Hour)
	if pod := c.get(t, "p"); pod.Status.Phase != corev1.PodRunning || !has(pod, corev1.PodReady, corev1.ConditionTrue) {
		t.Errorf("while it ends: %+v", pod.Status)
	}
	c.remove(t, "p", 1)
	expect(2 * time.Second) // the least that anybody gets
	c.waitGone(t, "p")
}

func TestNode(t *testing.T) {
	c := startCluster(t)
	stop := c.run(t, simulated.New(network), func(config *kubelet.Config) {
		config.Labels = map[string]string{"zone": "a"}
		config.LeaseDuration = time.Second
	})
	nodes := c.client.CoreV1().Nodes()
	wait := func(what string, holds func(*corev1.Node) bool) (node *corev1.Node) {
		t.Helper()
		eventually.Nil(t, "node "+what, says(func() bool {
			var err error
			if node, err = nodes.Get(t.Context(), "node-1", metav1.GetOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			return err == nil && holds(node)
		}, func() string { return fmt.Sprintf("%+v", node.Status) }))
		return node
	}
	ready := func(status corev1.ConditionStatus) func(*corev1.Node) bool {
		return func(n *corev1.Node) bool {
			return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady && c.Status == status })
		}
	}
	node := wait("is ready", ready(corev1.ConditionTrue))
	if node.Labels["zone"] != "a" || node.Labels[corev1.LabelHostname] != "node-1" || node.Status.NodeInfo.KubeletVersion != "v1.37.2" ||
		node.Status.NodeInfo.ContainerRuntimeVersion != "simulated://1" || node.Status.Allocatable.Pods().Value() != 110 || node.Status.Addresses[0].Address != "192.0.2.1" {
		t.Errorf("node: %+v", node)
	}

	if l := node.Labels; l["beta.kubernetes.io/os"] != runtime.GOOS || l["beta.kubernetes.io/arch"] != runtime.GOARCH || l[corev1.LabelOSStable] != runtime.GOOS || l[corev1.LabelArchStable] != runtime.GOARCH {
		t.Errorf("labels: %v", l)
	}

	t.Run("lease is renewed", func(t *testing.T) {
		leases := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		var first metav1.MicroTime
		eventually.True(t, "two renewals", func() bool {
			lease, err := leases.Get(t.Context(), "node-1", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].UID != node.UID || *lease.Spec.HolderIdentity != "node-1" || *lease.Spec.LeaseDurationSeconds != 1 {
				t.Fatalf("lease: %+v", lease)
			}
			if first.IsZero() {
				first = *lease.Spec.RenewTime
			}
			return lease.Spec.RenewTime.Sub(first.Time) > 300*time.Millisecond
		})
	})

	t.Run("what others say is put right", func(t *testing.T) {
		patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`)
		if _, err := nodes.Patch(t.Context(), "node-1", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		wait("is ready again", ready(corev1.ConditionTrue))
	})

	t.Run("extended resources stay", func(t *testing.T) {
		patch := []byte(`{"status":{"capacity":{"example.com/gpu":"4"}}}`)
		if _, err := nodes.Patch(t.Context(), "node-1", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		wait("can allocate them", func(n *corev1.Node) bool {
			q := n.Status.Allocatable["example.com/gpu"]
			return q.Cmp(resource.MustParse("4")) == 0
		})
	})

	t.Run("a deleted node comes back", func(t *testing.T) {
		if err := nodes.Delete(t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		wait("is another one", func(n *corev1.Node) bool { return n.UID != node.UID })
	})

	t.Run("a node is taken over", func(t *testing.T) {
		stop()
		if _, err := nodes.Patch(t.Context(), "node-1", types.MergePatchType, []byte(`{"metadata":{"labels":{"zone":"x","mine":"y","beta.kubernetes.io/os":"plan9"}},"spec":{"unschedulable":true}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		c.run(t, simulated.New(network), func(config *kubelet.Config) {
			config.Labels = map[string]string{"zone": "b"}
			config.Version = "v1.38.0"
		})
		node := wait("reports its new version", func(n *corev1.Node) bool { return n.Status.NodeInfo.KubeletVersion == "v1.38.0" })
		if node.Labels["zone"] != "b" || node.Labels["beta.kubernetes.io/os"] != runtime.GOOS || node.Labels["mine"] != "y" || !node.Spec.Unschedulable {
			t.Errorf("node: %v, %+v", node.Labels, node.Spec)
		}
	})
}

func TestNode_WritesItsStatusWhenNothingChanges(t *testing.T) {
	c := startCluster(t)
	c.run(t, simulated.New(network), func(config *kubelet.Config) { config.StatusReportFrequency = 300 * time.Millisecond })
	var first metav1.Time
	eventually.True(t, "a second heartbeat", func() bool {
		node, err := c.client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		heartbeat := node.Status.Conditions[0].LastHeartbeatTime
		if first.IsZero() {
			first = heartbeat
		}
		return first.Before(&heartbeat)
	})
}

// counting counts the DELETEs that a client sends.
type counting struct {
	http.RoundTripper
	deletes *atomic.Int32
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodDelete {
		c.deletes.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// A pod that has ended and is still there, for its finalizers, is not deleted again whenever something of it changes.
func TestDeletion_IsAskedForOnce(t *testing.T) {
	c := startCluster(t)
	var deletes atomic.Int32
	stop := c.run(t, simulated.New(network), func(config *kubelet.Config) {
		config.Server = rest.CopyConfig(config.Server)
		config.Server.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, &deletes} })
	})
	c.create(t, "held", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} })
	c.waitPhase(t, "held", corev1.PodRunning)
	c.remove(t, "held", 5)
	c.wait(t, "held", "has ended", func(p *corev1.Pod) bool {
		return p != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
	})
	change := func(patch string) {
		if _, err := c.client.CoreV1().Pods("default").Patch(t.Context(), "held", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		change(fmt.Sprintf(`{"metadata":{"labels":{"change":"%d"}}}`, i))
	}
	change(`{"metadata":{"finalizers":null}}`)
	c.waitGone(t, "held")
	stop()
	if n := deletes.Load(); n != 1 {
		t.Errorf("%d requests to delete, want 1", n)
	}
}
