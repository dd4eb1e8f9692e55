package nodecache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// check returns an error for the first rule of the cache that is broken: what a node counts is the sum of its pods, every pod is on the node that
// it is said to be on, the order has the nodes that exist, claims are counted, and nothing is kept of what is gone.
func (c *Cache) check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.order.check(); err != nil {
		return err
	}
	var names []string
	pods, users := 0, map[types.NamespacedName]int{}
	for name, n := range c.nodes {
		if n.Node != nil {
			names = append(names, name)
		} else if len(n.Pods) == 0 {
			return fmt.Errorf("node %s is kept for nothing", name)
		}
		var requested, nonZero Resources
		for _, p := range n.Pods {
			if at := c.pods[p.UID]; at.node != name || at.pod != p {
				return fmt.Errorf("pod %s of node %s is said to be on %q", p.UID, name, at.node)
			}
			requested.add(p.Requests, 1)
			nonZero.add(p.NonZero, 1)
			for _, claim := range p.Claims {
				users[claim]++
			}
		}
		pods += len(n.Pods)
		if !same(requested, n.Requested) || !same(nonZero, n.NonZero) {
			return fmt.Errorf("node %s counts %+v, its pods ask for %+v", name, n.Requested, requested)
		}
		if n.Requested.Memory < 0 || n.Requested.MilliCPU < 0 {
			return fmt.Errorf("node %s counts %+v", name, n.Requested)
		}
	}
	slices.Sort(names)
	snapshot := Snapshot{chunks: c.order.chunks, len: c.order.len}
	ordered := slices.Collect(snapshot.From(0))
	if !slices.EqualFunc(names, ordered, func(name string, n *Node) bool { return c.nodes[name] == n && snapshot.Node(name) == n }) {
		return fmt.Errorf("%d nodes in the order, want %d", len(ordered), len(names))
	}
	if pods != len(c.pods) || !maps.Equal(users, c.users) {
		return fmt.Errorf("%d pods and %d claims, counted %d and %d", len(c.pods), len(c.users), pods, len(users))
	}
	return nil
}

// check returns an error for the first rule of the order that is broken: chunks are neither empty nor too large nor of a future epoch,
// names ascend, and the length is that of all chunks.
func (o *order) check() error {
	length, last := 0, ""
	for i, chunk := range o.chunks {
		switch n := len(chunk.nodes); {
		case n == 0 || n > chunkSize:
			return fmt.Errorf("chunk %d has %d nodes", i, n)
		case chunk.epoch > o.epoch:
			return fmt.Errorf("chunk %d is of epoch %d, the order of %d", i, chunk.epoch, o.epoch)
		}
		for _, n := range chunk.nodes {
			if n.Node.Name <= last {
				return fmt.Errorf("%s comes after %s", n.Node.Name, last)
			}
			last = n.Node.Name
		}
		length += len(chunk.nodes)
	}
	if length != o.len {
		return fmt.Errorf("%d nodes, counted %d", length, o.len)
	}
	return nil
}

func same(a, b Resources) bool {
	for name, n := range a.Scalar {
		if b.Scalar[name] != n {
			return false
		}
	}
	for name, n := range b.Scalar {
		if a.Scalar[name] != n {
			return false
		}
	}
	a.Scalar, b.Scalar = nil, nil
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// printed is all that a snapshot says.
func printed(s *Snapshot) string {
	var b strings.Builder
	for n := range s.From(0) {
		fmt.Fprint(&b, n.Node.Name, " ", n.Requested.MilliCPU, " ", n.NonZero.Memory, " ", len(n.Pods))
		for _, p := range n.Pods {
			fmt.Fprint(&b, " ", p.UID)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Hundreds of nodes and thousands of pods that are assumed, bound here and elsewhere, resized and removed, while nodes come and go.
func TestCache_Large(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const nodes, pods = 600, 5000
	c := New()
	model := map[types.UID]place{}
	make := func(name, on string) *Pod {
		spec := corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			"cpu": *resource.NewMilliQuantity(rnd.Int64N(3000), resource.DecimalSI), "memory": *resource.NewQuantity(rnd.Int64N(1<<40), resource.BinarySI)}}}}}
		if rnd.IntN(3) == 0 {
			spec.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprint("example.com/", rnd.IntN(3)))] = resource.MustParse("1")
		}
		if rnd.IntN(4) == 0 {
			spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", rnd.IntN(50))}}}}
		}
		p, err := NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	check := func(step int) {
		t.Helper()
		if err := c.check(); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if len(c.pods) != len(model) {
			t.Fatalf("step %d: %d pods, want %d", step, len(c.pods), len(model))
		}
		for uid, want := range model {
			if c.pods[uid] != want {
				t.Fatalf("step %d: %s is on %s, want %s", step, uid, c.pods[uid].node, want.node)
			}
		}
	}
	var kept []*Snapshot
	var were []string
	most := 0
	for step := range 60000 {
		name, on := fmt.Sprint("p", rnd.IntN(pods)), fmt.Sprint("n", rnd.IntN(nodes))
		uid := types.UID(name)
		was, placed := model[uid]
		emptying := step%30000 > 20000
		switch n := rnd.IntN(10); {
		case n == 0:
			c.SetNode(node(on, "64"))
		case n == 1 && rnd.IntN(4) == 0:
			c.RemoveNode(on)
		case n < 4 && !emptying:
			p := make(name, "")
			if err := c.Assume(p, on); (err == nil) == placed {
				t.Fatalf("step %d: assume %s, which is placed %v: %v", step, name, placed, err)
			}
			if !placed {
				model[uid] = place{p.Holding, on, true, ""}
			}
		case n < 7 && !emptying:
			if was.assumed && rnd.IntN(10) > 0 {
				on = was.node
			}
			p := make(name, on)
			c.AddPod(p)
			model[uid] = place{p.Holding, on, false, ""}
		case n == 7:
			c.Forget(uid)
			if was.assumed {
				delete(model, uid)
			}
		case n == 8 || emptying:
			c.RemovePod(uid)
			delete(model, uid)
		}
		most = max(most, len(model))
		if step%50 == 0 {
			c.Snapshot()
		}
		if step%500 == 0 {
			check(step)
			kept = append(kept, c.Snapshot())
			were = append(were, printed(kept[len(kept)-1]))
		}
	}
	for i, s := range kept {
		if now := printed(s); now != were[i] {
			t.Errorf("snapshot %d has changed: was\n%s\nis\n%s", i, were[i], now)
		}
	}
	for uid := range model {
		c.RemovePod(uid)
		delete(model, uid)
	}
	for i := range nodes {
		c.RemoveNode(fmt.Sprint("n", i))
	}
	check(-1)
	if len(c.nodes)+len(c.order.chunks)+len(c.users) != 0 {
		t.Errorf("%d nodes and %d claims are left", len(c.nodes), len(c.users))
	}
	if most < pods/3 {
		t.Errorf("%d pods at most", most)
	}
}

// Amounts that no machine has do not make a node's sum wrap around: it would look empty.
func TestCache_HugeRequests(t *testing.T) {
	c := New()
	c.SetNode(node("n", "4"))
	for i := range 100 {
		c.AddPod(pod(t, fmt.Sprint("p", i), "n", "9223372036854775"))
		if got := requested(c, "n"); got < 4000 {
			t.Fatalf("%d pods ask for %d millicores", i+1, got)
		}
	}
	for i := range 100 {
		c.RemovePod(types.UID(fmt.Sprint("p", i)))
	}
	if got := requested(c, "n"); got != 0 {
		t.Errorf("%d millicores are left", got)
	}
}
