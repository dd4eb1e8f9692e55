// Package nodecache knows what every node has and what its pods take of it, a little ahead of the API server: a pod is
// assumed on its node as soon as the scheduler decides, and confirmed when the watch brings it back bound.
//
//	        Assume                    AddPod (bound, seen by the watch)
//	(none) --------> assumed ---------------------------------> bound --RemovePod--> (none)
//	                    |   Forget (the binding failed)            ^
//	                    +-----------------------------> (none)     | AddPod (bound by somebody else)
//
// Who decides looks at a Snapshot, without a lock. The cache is no more right than the watch: what it promises is that no two decisions of this scheduler count the same
// room twice.
package nodecache

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node is a node with what its pods ask for, at one moment. It is never changed: the cache replaces it.
type Node struct {
	Node        *corev1.Node // never nil in a Snapshot
	Allocatable Resources
	Requested   Resources
	NonZero     Resources // as Requested, for scores
	Pods        []*Holding
}

// with returns the node with one more pod. Versions of a node share the array of their pods as long as pods are only added: each sees those
// up to its own length.
func (n *Node) with(pod *Holding) *Node {
	next := *n
	next.Pods = append(n.Pods, pod)
	next.Requested.add(pod.Requests, 1)
	next.NonZero.add(pod.NonZero, 1)
	return &next
}

// without returns the node with one pod less.
func (n *Node) without(pod *Holding) *Node {
	next := *n
	next.Pods = make([]*Holding, 0, max(len(n.Pods)-1, 0))
	for _, p := range n.Pods {
		if p != pod {
			next.Pods = append(next.Pods, p)
		}
	}
	next.Requested.add(pod.Requests, -1)
	next.NonZero.add(pod.NonZero, -1)
	return &next
}

// Cache holds nodes and pods. All methods may be called from everywhere.
type Cache struct {
	mu    sync.Mutex
	nodes map[string]*Node // the latest version of each
	order order            // those that exist
	taken *Snapshot        // of the order as it is; nil when it has changed since
	pods  map[types.UID]place
	users map[types.NamespacedName]int // of claims: how many pods that are placed use one
}

type place struct {
	pod     *Holding
	node    string
	assumed bool
	version string // the resourceVersion of the state that pod was made from, or of a later one in which it takes the same
}

// New makes an empty cache.
func New() *Cache {
	return &Cache{nodes: map[string]*Node{}, pods: map[types.UID]place{}, users: map[types.NamespacedName]int{}}
}

// SetNode adds a node or replaces what is known of it, and returns what was: nil for a new one.
func (c *Cache) SetNode(node *corev1.Node) (old *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := *c.node(node.Name)
	old = next.Node
	next.Node, next.Allocatable = node, ResourcesOf(node.Status.Allocatable)
	c.replace(node.Name, &next)
	return old
}

// RemoveNode forgets a node. Its pods are remembered until they are removed, in case the node comes back.
func (c *Cache) RemoveNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[name]
	if n == nil || n.Node == nil {
		return
	}
	c.order.remove(name)
	c.taken = nil
	next := *n
	next.Node = nil
	c.replace(name, &next)
}

// node returns the latest version of a node, an empty one for a node that nobody has described: pods may be seen before their node.
func (c *Cache) node(name string) *Node {
	if n := c.nodes[name]; n != nil {
		return n
	}
	return &Node{}
}

// replace takes in a new version of a node.
func (c *Cache) replace(name string, n *Node) {
	if n.Node == nil && len(n.Pods) == 0 {
		delete(c.nodes, name)
		return
	}
	c.nodes[name] = n
	if n.Node != nil {
		c.order.set(n)
		c.taken = nil
	}
}

// Snapshot returns all nodes as they are now. Without a change since the last one it is the same.
func (c *Cache) Snapshot() *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken == nil {
		c.taken = c.order.snapshot()
	}
	return c.taken
}

// AddPod takes in a bound pod, or a new state of one.
func (c *Cache) AddPod(pod *Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(pod.UID)
	c.put(pod, pod.Spec.NodeName, false)
}

// Confirm takes in a bound pod of which nothing changed that matters here between two versions, and reports whether that suffices: it does
// when what is kept of it was made from the older one. An assumed pod is bound then.
func (c *Cache) Confirm(uid types.UID, node, from, to string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.pods[uid]
	if !ok || at.node != node || at.version != from {
		return false
	}
	at.assumed, at.version = false, to
	c.pods[uid] = at
	return true
}

// RemovePod forgets a pod that was deleted, has finished, or was assumed and disappeared.
func (c *Cache) RemovePod(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(uid)
}

// Assume counts a pod on a node before it is bound there. It fails when the pod is placed already.
func (c *Cache) Assume(pod *Pod, node string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.pods[pod.UID]; ok {
		return fmt.Errorf("pod %s is on node %s already", pod.Name, at.node)
	}
	c.put(pod, node, true)
	return nil
}

// Forget takes back an assumption whose binding failed. A pod that has been seen bound meanwhile stays.
func (c *Cache) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods[uid].assumed {
		c.remove(uid)
	}
}

// Placed says whether the pod is counted on a node.
func (c *Cache) Placed(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.pods[uid]
	return ok
}

// Users is how many pods that are placed use a claim.
func (c *Cache) Users(claim types.NamespacedName) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.users[claim]
}

// Len is how many nodes there are.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.len
}

func (c *Cache) put(pod *Pod, node string, assumed bool) {
	c.replace(node, c.node(node).with(pod.Holding))
	for _, claim := range pod.Claims {
		c.users[claim]++
	}
	c.pods[pod.UID] = place{pod: pod.Holding, node: node, assumed: assumed, version: pod.ResourceVersion}
}

func (c *Cache) remove(uid types.UID) {
	at, ok := c.pods[uid]
	if !ok {
		return
	}
	c.replace(at.node, c.nodes[at.node].without(at.pod))
	for _, claim := range at.pod.Claims {
		if c.users[claim]--; c.users[claim] == 0 {
			delete(c.users, claim)
		}
	}
	delete(c.pods, uid)
}
