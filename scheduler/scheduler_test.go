package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"vigil/apiserver/apiservertest"
	"vigil/informer"
	"vigil/internal/eventually"
	"vigil/scheduler"
)

// cluster is an API server with a running scheduler and the namespace default.
type cluster struct {
	*testing.T
	server *apiservertest.Server
	client *kubernetes.Clientset
}

// start starts both. change changes the scheduler's configuration.
func start(t *testing.T, change ...func(*scheduler.Config)) cluster {
	t.Helper()
	t.Parallel() // pods wait out their backoff most of the time
	server := apiservertest.Start(t)
	c := cluster{t, server, server.Clientset()}
	_, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	factory, err := informer.NewFactory(server.Admin(), informer.Config{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.client.CoreV1().Events("")})
	t.Cleanup(events.Shutdown)
	config := scheduler.Config{
		Client: c.client, Informers: factory, Logger: logger,
		Recorder: func(name string) record.EventRecorder {
			return events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: name})
		},
	}
	for _, change := range change {
		change(&config)
	}
	s := scheduler.New(config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- factory.Run(ctx) }()
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("ended: %v", err)
			}
		}
	})
	return c
}

// node makes a node with so many cores and room for 110 pods.
func (c cluster) node(name, cores string, change func(*corev1.Node)) {
	c.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cores), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}}}
	node.Status.Capacity = node.Status.Allocatable
	if change != nil {
		change(node)
	}
	if _, err := c.client.CoreV1().Nodes().Create(c.Context(), node, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c cluster) patchNode(name, patch string, subresources ...string) {
	c.Helper()
	if _, err := c.client.CoreV1().Nodes().Patch(c.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...); err != nil {
		c.Fatal(err)
	}
}

// pod makes a pod that asks for so much cpu.
func (c cluster) pod(name, cpu string, change func(*corev1.Pod)) *corev1.Pod {
	c.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Image: "image",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}}}}
	if change != nil {
		change(pod)
	}
	made, err := c.client.CoreV1().Pods("default").Create(c.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return made
}

func (c cluster) patchPod(name, patch string, subresources ...string) {
	c.Helper()
	if _, err := c.client.CoreV1().Pods("default").Patch(c.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...); err != nil {
		c.Fatal(err)
	}
}

func (c cluster) wait(name, what string, holds func(*corev1.Pod) bool) (pod *corev1.Pod) {
	c.Helper()
	eventually.True(c, name+" "+what, func() bool {
		var err error
		if pod, err = c.client.CoreV1().Pods("default").Get(c.Context(), name, metav1.GetOptions{}); err != nil {
			c.Fatal(err)
		}
		return holds(pod)
	})
	return pod
}

func (c cluster) bound(name, node string) *corev1.Pod {
	c.Helper()
	return c.wait(name, "is bound to "+node, func(p *corev1.Pod) bool { return p.Spec.NodeName == node })
}

func scheduled(p *corev1.Pod) corev1.PodCondition {
	if at := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }); at >= 0 {
		return p.Status.Conditions[at]
	}
	return corev1.PodCondition{}
}

// refused waits until a pod says that it fits nowhere, and why.
func (c cluster) refused(name, why string) *corev1.Pod {
	c.Helper()
	return c.wait(name, "is refused: "+why, func(p *corev1.Pod) bool {
		s := scheduled(p)
		return s.Status == corev1.ConditionFalse && s.Reason == "Unschedulable" && s.Message == why
	})
}

// hasEvent waits for an event from a profile, by default the default scheduler.
func (c cluster) hasEvent(pod, kind, reason, message string, from ...string) {
	c.Helper()
	source := append(from, corev1.DefaultSchedulerName)[0]
	eventually.True(c, fmt.Sprintf("event %s %q", reason, message), func() bool {
		events, err := c.client.CoreV1().Events("default").List(c.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
		if err != nil {
			c.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Type == kind && e.Reason == reason && e.Message == message && e.Source.Component == source
		})
	})
}

func TestScheduler_BindsWhenSomethingHelps(t *testing.T) {
	c := start(t)
	c.pod("first", "1", nil)
	c.refused("first", "no nodes available to schedule pods")
	c.hasEvent("first", corev1.EventTypeWarning, "FailedScheduling", "no nodes available to schedule pods")

	c.node("a", "2", nil)
	pod := c.bound("first", "a")
	if s := scheduled(pod); s.Status != corev1.ConditionTrue {
		t.Errorf("PodScheduled: %+v", s)
	}
	c.hasEvent("first", corev1.EventTypeNormal, "Scheduled", "Successfully assigned default/first to a")

	t.Run("a pod goes", func(t *testing.T) {
		c.T = t
		c.pod("second", "2", nil)
		before := scheduled(c.refused("second", "0/1 nodes are available: 1 Insufficient cpu."))
		c.node("b", "1", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}
		})
		after := scheduled(c.refused("second", "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."))
		if !after.LastTransitionTime.Equal(&before.LastTransitionTime) {
			t.Errorf("another reason is no transition, but its time went from %v to %v", before.LastTransitionTime, after.LastTransitionTime)
		}
		if err := c.client.CoreV1().Pods("default").Delete(t.Context(), "first", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			t.Fatal(err)
		}
		c.bound("second", "a")
	})

	t.Run("a taint goes", func(t *testing.T) {
		c.T = t
		c.pod("third", "1", nil)
		c.refused("third", "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).")
		c.patchNode("b", `{"spec":{"taints":null}}`)
		c.bound("third", "b")
	})

	t.Run("a pod finishes", func(t *testing.T) {
		c.T = t
		c.pod("fourth", "1", nil)
		c.refused("fourth", "0/2 nodes are available: 2 Insufficient cpu.")
		c.patchPod("third", `{"status":{"phase":"Succeeded"}}`, "status")
		c.bound("fourth", "b")
	})

	t.Run("a node grows", func(t *testing.T) {
		c.T = t
		c.pod("fifth", "3", nil)
		c.refused("fifth", "0/2 nodes are available: 2 Insufficient cpu.")
		c.patchNode("b", `{"status":{"capacity":{"cpu":"4"},"allocatable":{"cpu":"4"}}}`, "status")
		c.bound("fifth", "b")
	})

	t.Run("a node is uncordoned and labeled", func(t *testing.T) {
		c.T = t
		c.node("c", "4", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		c.pod("sixth", "1", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "fast"} })
		c.refused("sixth", "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector.")
		c.patchNode("c", `{"spec":{"unschedulable":null}}`)
		c.refused("sixth", "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.")
		c.patchNode("c", `{"metadata":{"labels":{"disk":"fast"}}}`)
		c.bound("sixth", "c")
	})
}

func TestScheduler_LeavesAloneWhatIsNotItsOwn(t *testing.T) {
	c := start(t)
	c.pod("foreign", "1", func(p *corev1.Pod) { p.Spec.SchedulerName = "other" })
	c.pod("gated", "1", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} })
	c.pod("fixed", "1500m", func(p *corev1.Pod) { p.Spec.NodeName = "a" })
	c.node("a", "2", nil)
	c.pod("last", "500m", nil)
	c.bound("last", "a") // by now the others, which came before, would have been bound
	for _, name := range []string{"foreign", "gated"} {
		if pod := c.wait(name, "is there", func(*corev1.Pod) bool { return true }); pod.Spec.NodeName != "" || scheduled(pod).Reason == "Unschedulable" {
			t.Errorf("%s: node %q, %+v", name, pod.Spec.NodeName, scheduled(pod))
		}
	}
	c.node("b", "1", nil)
	c.patchPod("gated", `{"spec":{"schedulingGates":null}}`)
	c.bound("gated", "b")
}

// A pod that waits is bound by a PATCH of its spec.nodeName, and its room is counted from then on.
func TestScheduler_PatchOfNodeNameBinds(t *testing.T) {
	c := start(t)
	c.node("a", "2", nil)
	c.pod("big", "3", nil)
	c.refused("big", "0/1 nodes are available: 1 Insufficient cpu.")
	c.patchPod("big", `{"spec":{"nodeName":"a"}}`) // whoever may do that knows what they do
	pod := c.bound("big", "a")
	if s := scheduled(pod); s.Status != corev1.ConditionTrue {
		t.Errorf("PodScheduled: %+v", s)
	}
	c.pod("small", "1", nil)
	c.refused("small", "0/1 nodes are available: 1 Insufficient cpu.")
	if err := c.client.CoreV1().Pods("default").Delete(t.Context(), "big", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	c.bound("small", "a")
}

// Many pods at once, with room for half of them: no node is ever filled beyond what it has, and no room is left unused, also
// when half of the bound ones are deleted.
func TestScheduler_NeverOvercommits(t *testing.T) {
	c := start(t)
	const nodes, each, pods = 4, 5, 40
	for i := range nodes {
		c.node(fmt.Sprintf("node-%d", i), fmt.Sprint(each), nil)
	}
	for i := range pods {
		c.pod(fmt.Sprintf("pod-%d", i), "1", nil)
	}
	placed := func() (on map[string]int, waiting []string) {
		list, err := c.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		on = map[string]int{}
		for _, p := range list.Items {
			if p.Spec.NodeName == "" {
				waiting = append(waiting, p.Name)
			} else if on[p.Spec.NodeName]++; on[p.Spec.NodeName] > each {
				t.Fatalf("%s has %d pods, and room for %d", p.Spec.NodeName, on[p.Spec.NodeName], each)
			}
		}
		return on, waiting
	}
	full := func() bool {
		on, _ := placed()
		sum := 0
		for _, n := range on {
			sum += n
		}
		return sum == nodes*each
	}
	eventually.True(t, "all nodes are full", full)
	list, err := c.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName!="})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range list.Items {
		if i%2 == 0 {
			if err := c.client.CoreV1().Pods("default").Delete(t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually.True(t, "the others take their places", full)
	if _, waiting := placed(); len(waiting) != pods-nodes*each-nodes*each/2 {
		t.Errorf("%d pods wait", len(waiting))
	}
}
