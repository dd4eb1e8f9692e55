package nodelifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/controllers/internal/controllertest"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

// farm is a running controller with short periods and nodes that are alive as long as they are told so.
type farm struct {
	*controllertest.Env
	t *testing.T
}

const testGrace = 3 * time.Second

func startFarm(t *testing.T, config Config) *farm { return startFarmEvery(t, config, time.Hour) }

// startFarmEvery searches pods for garbage that often.
func startFarmEvery(t *testing.T, config Config, gcPeriod time.Duration) *farm {
	env := controllertest.Start(t)
	config.Client, config.Informers, config.Recorder, config.Logger = env.Client, env.Informers, env.Recorder, env.Logger
	config.NodeMonitorGracePeriod = testGrace
	c := newController(config, timing{
		quarantine: 100 * time.Millisecond, gcPeriod: gcPeriod, evictEvery: 10 * time.Millisecond,
	})
	env.Run(c.Run)
	return &farm{env, t}
}

// node makes a Node that is ready.
func (f *farm) node(name string) {
	f.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}}
	if _, err := f.Client.CoreV1().Nodes().Create(f.t.Context(), n, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	f.report(name)
}

// report writes the node's Ready condition as its kubelet does.
func (f *farm) report(name string) { f.t.Helper(); f.say(name, corev1.ConditionTrue) }

func (f *farm) say(name string, ready corev1.ConditionStatus) {
	f.t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Kubelet","lastHeartbeatTime":%q}]}}`, ready, time.Now().UTC().Format(time.RFC3339))
	if _, err := f.Client.CoreV1().Nodes().Patch(f.t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		f.t.Fatal(err)
	}
}

// renew keeps a node's Lease renewed until the test ends or stop is called.
func (f *farm) renew(name string) (stop func()) {
	f.t.Helper()
	leases := f.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(f.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = leases.Create(f.t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(testGrace / 10)
		defer tick.Stop()
		for {
			now := metav1.NowMicro()
			lease.Spec.RenewTime = &now
			updated, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				f.t.Errorf("renew lease of %s: %v", name, err)
				return
			}
			lease = updated
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	f.t.Cleanup(stop)
	return stop
}

// pod makes a pod on a node, running and ready.
func (f *farm) pod(name, node string, tolerations ...corev1.Toleration) {
	f.t.Helper()
	pods := f.Client.CoreV1().Pods("default")
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Tolerations: tolerations, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if _, err := pods.Create(f.t.Context(), p, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	patch := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	if _, err := pods.Patch(f.t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		f.t.Fatal(err)
	}
}

// until waits for a node's Ready condition and taints: "Unknown: key:effect ...".
func (f *farm) until(node, want string) *corev1.Node {
	f.t.Helper()
	var n *corev1.Node
	f.Eventually(func(ctx context.Context) error {
		var err error
		if n, err = f.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); err != nil {
			return err
		}
		have := []string{string(ready(n)) + ":"}
		for _, t := range n.Spec.Taints {
			have = append(have, strings.TrimPrefix(t.Key, "node.kubernetes.io/")+":"+string(t.Effect))
		}
		if got := strings.Join(have, " "); got != want {
			return fmt.Errorf("%s is %q, want %q", node, got, want)
		}
		return nil
	})
	return n
}

func (f *farm) untilPod(name string, holds func(*corev1.Pod, error) bool) {
	f.t.Helper()
	f.Eventually(func(ctx context.Context) error {
		p, err := f.Client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if !holds(p, err) {
			return fmt.Errorf("pod %s: %v, deleted %v, %+v", name, err, p.DeletionTimestamp, p.Status.Conditions)
		}
		return nil
	})
}

func hasCondition(p *corev1.Pod, t corev1.PodConditionType, status corev1.ConditionStatus, reason string) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == t && c.Status == status && c.Reason == reason {
			return true
		}
	}
	return false
}

// One of two nodes falls silent, its pods go as they tolerate it, and it comes back.
func TestNode_SilentAndBack(t *testing.T) {
	f := startFarm(t, Config{})
	f.node("alive")
	f.node("silent")
	f.renew("alive")
	stop := f.renew("silent")
	zero := int64(0)
	f.pod("stays", "silent", corev1.Toleration{Operator: corev1.TolerationOpExists})
	f.pod("later", "silent") // 300 s by default
	f.pod("goes", "silent", corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &zero})
	f.pod("elsewhere", "alive")
	f.until("silent", "True:")
	stop()

	n := f.until("silent", "Unknown: unreachable:NoSchedule unreachable:NoExecute")
	if c := condition(n, corev1.NodeReady); c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." {
		t.Errorf("the Ready condition says %s: %s", c.Reason, c.Message)
	}
	f.untilPod("goes", func(p *corev1.Pod, err error) bool {
		return err == nil && p.DeletionTimestamp != nil && hasCondition(p, corev1.DisruptionTarget, corev1.ConditionTrue, "DeletionByTaintManager")
	})
	for _, name := range []string{"stays", "later"} {
		f.untilPod(name, func(p *corev1.Pod, err error) bool {
			return err == nil && p.DeletionTimestamp == nil && hasCondition(p, corev1.PodReady, corev1.ConditionFalse, "")
		})
	}
	f.untilPod("elsewhere", func(p *corev1.Pod, err error) bool { return err == nil && podReady(p) })
	f.Eventually(func(ctx context.Context) error {
		return errors.Join(
			f.HasEvent(ctx, "silent", "NodeNotReady", "Node silent status is now: NodeNotReady"),
			f.HasEvent(ctx, "silent", "RegisteredNode", "Node silent event: Registered Node silent in Controller"),
			f.HasEvent(ctx, "stays", "NodeNotReady", "Node is not ready"),
			f.HasEvent(ctx, "goes", "TaintManagerEviction", "Marking for deletion Pod default/goes"))
	})
	f.until("alive", "True:")

	f.renew("silent")
	f.report("silent")
	f.until("silent", "True:")
	f.Eventually(func(ctx context.Context) error {
		return f.HasEvent(ctx, "later", "TaintManagerEviction", "Cancelling deletion of Pod default/later")
	})
}

// What a kubelet says of its pods stays when it says itself that its node is not ready: it knows, and would say it again.
func TestNode_NotReadyByItself(t *testing.T) {
	f := startFarm(t, Config{})
	f.node("n")
	f.renew("n")
	f.pod("p", "n")
	f.until("n", "True:")
	f.say("n", corev1.ConditionFalse)
	f.until("n", "False: not-ready:NoSchedule")
	f.untouched("n", "p")
}

// The pods of a silent node are marked once. What is written of them afterwards comes from somebody who knows more.
func TestNode_PodsMarkedOnce(t *testing.T) {
	f := startFarm(t, Config{})
	f.node("n")
	f.pod("p", "n")
	f.until("n", "Unknown: unreachable:NoSchedule")
	f.untilPod("p", func(p *corev1.Pod, err error) bool { return err == nil && !podReady(p) })
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	if _, err := f.Client.CoreV1().Pods("default").Patch(t.Context(), "p", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	f.pod("late", "n") // of a node that is silent, which makes the node be looked at
	f.untouched("n", "p")
	f.untouched("n", "late")
}

// untouched checks that the controller leaves a pod's Ready condition alone: it looks at the node, as the taint shows that it is
// made to set, and the pod is ready still.
func (f *farm) untouched(node, pod string) {
	f.t.Helper()
	for _, unschedulable := range []string{"true", "null"} {
		if _, err := f.Client.CoreV1().Nodes().Patch(f.t.Context(), node, types.MergePatchType, []byte(`{"spec":{"unschedulable":`+unschedulable+`}}`), metav1.PatchOptions{}); err != nil {
			f.t.Fatal(err)
		}
		f.Eventually(func(ctx context.Context) error {
			n, err := f.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if has := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable }); has != (unschedulable == "true") {
				return fmt.Errorf("unschedulable is %s, taints are %v", unschedulable, n.Spec.Taints)
			}
			return nil
		})
	}
	p, err := f.Client.CoreV1().Pods("default").Get(f.t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	if !podReady(p) {
		f.t.Errorf("pod %s of node %s is not ready any more: %+v", pod, node, p.Status.Conditions)
	}
}

// With no node ready nobody is evicted: the only node keeps its pods.
func TestNode_OnlyOne(t *testing.T) {
	f := startFarm(t, Config{DefaultTolerationSeconds: -1})
	f.node("only")
	f.pod("p", "only")
	f.until("only", "Unknown: unreachable:NoSchedule")
	f.untilPod("p", func(p *corev1.Pod, err error) bool { return err == nil && p.DeletionTimestamp == nil && !podReady(p) })
	// Another one comes: now it is the first node's fault.
	f.node("second")
	f.renew("second")
	f.until("only", "Unknown: unreachable:NoSchedule unreachable:NoExecute")
	f.untilPod("p", func(p *corev1.Pod, err error) bool { return err == nil && p.DeletionTimestamp != nil })
}

func TestNode_Cordon(t *testing.T) {
	f := startFarm(t, Config{})
	f.node("n")
	f.renew("n")
	cordon := func(on string) {
		t.Helper()
		if _, err := f.Client.CoreV1().Nodes().Patch(t.Context(), "n", types.MergePatchType, []byte(`{"spec":{"unschedulable":`+on+`}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	cordon("true")
	f.until("n", "True: unschedulable:NoSchedule")
	cordon("null")
	f.until("n", "True:")
}

// A taint that somebody adds evicts at once those who do not tolerate it, without regard to readiness.
func TestNode_TaintedByHand(t *testing.T) {
	f := startFarm(t, Config{})
	f.node("n")
	f.renew("n")
	f.pod("goes", "n")
	f.pod("stays", "n", corev1.Toleration{Key: "mine", Operator: corev1.TolerationOpExists})
	patch := []byte(`{"spec":{"taints":[{"key":"mine","effect":"NoExecute"}]}}`)
	if _, err := f.Client.CoreV1().Nodes().Patch(t.Context(), "n", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.untilPod("goes", func(p *corev1.Pod, err error) bool { return err == nil && p.DeletionTimestamp != nil })
	f.untilPod("stays", func(p *corev1.Pod, err error) bool { return err == nil && p.DeletionTimestamp == nil && podReady(p) })
	f.pod("late", "n") // it comes when the taint is there already
	f.untilPod("late", func(p *corev1.Pod, err error) bool { return err == nil && p.DeletionTimestamp != nil })
}

func TestPods_OfDeletedNode(t *testing.T) {
	f := startFarm(t, Config{})
	f.node("n")
	f.renew("n")
	f.pod("p", "n")
	if err := f.Client.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.untilPod("p", func(_ *corev1.Pod, err error) bool { return apierrors.IsNotFound(err) })
}

// Who labels a node by its new names only, or changes one, finds the labels of old in step.
func TestLabelsOfOld(t *testing.T) {
	f := startFarm(t, Config{})
	f.node("n")
	label := func(patch string) {
		t.Helper()
		if _, err := f.Client.CoreV1().Nodes().Patch(t.Context(), "n", types.MergePatchType, []byte(`{"metadata":{"labels":`+patch+`}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(os, arch string) {
		t.Helper()
		f.Eventually(func(ctx context.Context) error {
			n, err := f.Client.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
			if err != nil || n.Labels["beta.kubernetes.io/os"] != os || n.Labels["beta.kubernetes.io/arch"] != arch {
				return fmt.Errorf("labels %v, not %s, %s (%v)", n.Labels, os, arch, err)
			}
			return nil
		})
	}
	label(`{"kubernetes.io/os":"linux"}`)
	expect("linux", "")
	label(`{"kubernetes.io/arch":"arm64","beta.kubernetes.io/os":"windows"}`)
	expect("linux", "arm64")
}

// A person says that a dead node is out of service: its pods, which nobody can end any more, fail and go. Those of a node that works
// stay until its kubelet has ended them.
func TestPods_OutOfService(t *testing.T) {
	f := startFarmEvery(t, Config{}, 50*time.Millisecond)
	for _, node := range []string{"dead", "works"} {
		f.node(node)
		f.renew(node)
		f.pod("on-"+node, node)
		f.pod("held-"+node, node)
		patch := []byte(`{"metadata":{"finalizers":["example.com/x"]}}`)
		if _, err := f.Client.CoreV1().Pods("default").Patch(t.Context(), "held-"+node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.say("dead", corev1.ConditionFalse)
	f.until("dead", "False: not-ready:NoSchedule not-ready:NoExecute")
	for _, node := range []string{"dead", "works"} {
		n, err := f.Client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		taints := append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": taints}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.untilPod("on-works", func(p *corev1.Pod, err error) bool { return err == nil && p.DeletionTimestamp != nil })
	f.untilPod("on-dead", func(_ *corev1.Pod, err error) bool { return apierrors.IsNotFound(err) })
	f.untilPod("held-dead", func(p *corev1.Pod, err error) bool {
		return err == nil && p.Status.Phase == corev1.PodFailed && *p.DeletionGracePeriodSeconds == 0
	})
	f.untilPod("on-works", func(p *corev1.Pod, err error) bool {
		return err == nil && p.Status.Phase == corev1.PodRunning && *p.DeletionGracePeriodSeconds == 30
	})
}

// A pod without a node whose finalizers hold it fails when it is deleted: no kubelet will say so, and Jobs wait for it.
func TestPods_UnscheduledFail(t *testing.T) {
	f := startFarmEvery(t, Config{}, 50*time.Millisecond)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	pods := f.Client.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var failed *corev1.Pod
	f.untilPod("held", func(p *corev1.Pod, err error) bool {
		failed = p
		return err == nil && p.Status.Phase == corev1.PodFailed
	})
	if hasCondition(failed, corev1.DisruptionTarget, corev1.ConditionTrue, "DeletionByPodGC") {
		t.Error("nothing disrupted the pod")
	}
	if _, err := pods.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.untilPod("held", func(_ *corev1.Pod, err error) bool { return apierrors.IsNotFound(err) })
}

// Of pods that have ended the oldest go when there are more than the threshold.
func TestPods_TooManyFinished(t *testing.T) {
	f := startFarmEvery(t, Config{TerminatedPodGCThreshold: 2}, 50*time.Millisecond)
	f.node("n")
	f.renew("n")
	f.pod("running", "n")
	for _, name := range []string{"a", "b", "evicted", "c"} { // names decide among those of one second
		f.pod(name, "n")
		reason := ""
		if name == "evicted" {
			reason = "Evicted"
		}
		patch := fmt.Sprintf(`{"status":{"phase":"Failed","reason":%q}}`, reason)
		if _, err := f.Client.CoreV1().Pods("default").Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	f.Eventually(func(ctx context.Context) error {
		list, err := f.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		if len(names) > 3 {
			return fmt.Errorf("there are %v", names)
		}
		return nil
	})
	f.untilPod("running", func(_ *corev1.Pod, err error) bool { return err == nil })
}
