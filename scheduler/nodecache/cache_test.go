package nodecache

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func node(name string, cpu string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("10")}}}
}

func pod(t *testing.T, name, nodeName, cpu string) *Pod {
	t.Helper()
	p, err := NewPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// requested returns the millicores asked for on a node, -1 when it is not there.
func requested(c *Cache, name string) int64 {
	if n := c.Snapshot().Node(name); n != nil {
		return n.Requested.MilliCPU
	}
	return -1
}

func TestCache_CountsAnAssumedPodOnce(t *testing.T) {
	c := New()
	c.SetNode(node("n", "4"))
	if err := c.Assume(pod(t, "a", "", "1"), "n"); err != nil {
		t.Fatal(err)
	}
	if err := c.Assume(pod(t, "a", "", "1"), "n"); err == nil {
		t.Error("assumed twice")
	}
	if got := requested(c, "n"); got != 1000 {
		t.Errorf("assumed: %d", got)
	}
	c.AddPod(pod(t, "a", "n", "1"))
	if got := requested(c, "n"); got != 1000 {
		t.Errorf("confirmed: %d", got)
	}
	c.Forget("a")
	if got := requested(c, "n"); got != 1000 {
		t.Errorf("a confirmed pod was forgotten: %d", got)
	}
	c.AddPod(pod(t, "a", "n", "2")) // resized
	if got := requested(c, "n"); got != 2000 {
		t.Errorf("resized: %d", got)
	}
	c.RemovePod("a")
	if got := requested(c, "n"); got != 0 {
		t.Errorf("removed: %d", got)
	}
}

// What is known of a pod is confirmed by a version of it only when it was made from the version before, on the same node.
func TestCache_Confirm(t *testing.T) {
	c := New()
	c.SetNode(node("n", "4"))
	p := pod(t, "a", "", "1")
	p.ResourceVersion = "5"
	if c.Confirm("a", "n", "5", "6") {
		t.Error("an unknown pod is confirmed")
	}
	if err := c.Assume(p, "n"); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct{ node, from string }{{"other", "5"}, {"n", "4"}} {
		if c.Confirm("a", at.node, at.from, "7") {
			t.Errorf("confirmed on %s from version %s", at.node, at.from)
		}
	}
	if !c.Confirm("a", "n", "5", "6") || !c.Confirm("a", "n", "6", "7") {
		t.Error("not confirmed")
	}
	c.Forget("a") // too late: it is bound
	if got := requested(c, "n"); got != 1000 {
		t.Errorf("%d millicores, want 1000", got)
	}
}

func TestCache_BoundElsewhereThanAssumed(t *testing.T) {
	c := New()
	c.SetNode(node("n", "4"))
	c.SetNode(node("m", "4"))
	if err := c.Assume(pod(t, "a", "", "1"), "n"); err != nil {
		t.Fatal(err)
	}
	c.AddPod(pod(t, "a", "m", "1"))
	if n, m := requested(c, "n"), requested(c, "m"); n != 0 || m != 1000 {
		t.Errorf("n has %d, m has %d", n, m)
	}
}

func TestCache_NodeComesAfterItsPodsAndBack(t *testing.T) {
	c := New()
	c.AddPod(pod(t, "a", "n", "1"))
	if c.Snapshot().Len() != 0 {
		t.Error("a node that nobody described is in the snapshot")
	}
	c.SetNode(node("n", "4"))
	c.RemoveNode("n")
	c.SetNode(node("n", "4"))
	if got := requested(c, "n"); got != 1000 {
		t.Errorf("its pod was lost: %d", got)
	}
	c.RemovePod("a")
	c.RemoveNode("n")
	if len(c.nodes) != 0 {
		t.Errorf("left: %v", c.nodes)
	}
}

// A snapshot stays as it was, whatever becomes of the nodes.
func TestSnapshot_IsNotChanged(t *testing.T) {
	c := New()
	for _, name := range []string{"c", "a", "b"} {
		c.SetNode(node(name, "4"))
	}
	c.AddPod(pod(t, "p", "b", "1"))
	before := c.Snapshot()
	if c.Snapshot() != before {
		t.Error("another snapshot without a change")
	}
	c.AddPod(pod(t, "q", "b", "2"))
	c.RemoveNode("a")
	c.SetNode(node("d", "4"))
	after := c.Snapshot()
	names := func(s *Snapshot, start int) (all string) {
		for n := range s.From(start) {
			all += n.Node.Name
		}
		return all
	}
	if got := names(before, 2) + " " + names(after, 4); got != "cab cdb" {
		t.Errorf("got %s", got)
	}
	if b, a := before.Node("b"), after.Node("b"); b.Requested.MilliCPU != 1000 || len(b.Pods) != 1 || a.Requested.MilliCPU != 3000 || len(a.Pods) != 2 {
		t.Errorf("before %+v, after %+v", b, a)
	}
	if before.Node("d") != nil || after.Node("a") != nil || before.Node("") != nil {
		t.Error("nodes that are not there")
	}
	for range before.From(1) {
		break // an early end is an end
	}
}

func TestHostPort_Conflicts(t *testing.T) {
	for _, test := range []struct {
		a, b HostPort
		want bool
	}{
		{HostPort{"TCP", "", 80}, HostPort{"TCP", "", 80}, true},
		{HostPort{"TCP", "", 80}, HostPort{"UDP", "", 80}, false},
		{HostPort{"TCP", "", 80}, HostPort{"TCP", "", 81}, false},
		{HostPort{"TCP", "10.0.0.1", 80}, HostPort{"TCP", "10.0.0.2", 80}, false},
		{HostPort{"TCP", "10.0.0.1", 80}, HostPort{"TCP", "0.0.0.0", 80}, true},
	} {
		if got := test.a.Conflicts(test.b); got != test.want {
			t.Errorf("%v and %v: %v", test.a, test.b, got)
		}
	}
}
