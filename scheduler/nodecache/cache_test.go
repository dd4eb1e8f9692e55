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
	found := int64(-1)
	c.Visit(0, func(n *Node) bool {
		if n.Node.Name == name {
			found = n.Requested.MilliCPU
		}
		return true
	}, func(int) {})
	return found
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
	if _, total := c.Visit(0, func(*Node) bool { return true }, func(int) {}); total != 0 {
		t.Error("a node that nobody described is visited")
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

func TestVisit_GoesAroundFromStart(t *testing.T) {
	c := New()
	for _, name := range []string{"c", "a", "b"} {
		c.SetNode(node(name, "1"))
	}
	var order string
	c.Visit(2, func(n *Node) bool {
		order += n.Node.Name
		return len(order) < 2
	}, func(int) {})
	if order != "ca" {
		t.Errorf("got %s", order)
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
