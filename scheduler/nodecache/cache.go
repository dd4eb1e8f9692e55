// Package nodecache knows what every node has and what its pods take of it, a little ahead of the API server: a pod is
// assumed on its node as soon as the scheduler decides, and confirmed when the watch brings it back bound.
//
//	        Assume                    AddPod (bound, seen by the watch)
//	(none) --------> assumed ---------------------------------> bound --RemovePod--> (none)
//	                    |   Forget (the binding failed)            ^
//	                    +-----------------------------> (none)     | AddPod (bound by somebody else)
//
// The cache is no more right than the watch: what it promises is that no two decisions of this scheduler count the same
// room twice.
package nodecache

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node is a node with what its pods ask for. It belongs to the cache; plug-ins read it during a Visit only.
type Node struct {
	Node        *corev1.Node // never nil in a Visit
	Allocatable Resources
	Requested   Resources
	NonZero     Resources // as Requested, for scores
	Pods        map[types.UID]*Pod
}

// Cache holds nodes and pods. All methods may be called from everywhere.
type Cache struct {
	mu    sync.Mutex
	nodes map[string]*Node
	// order has the names of nodes that exist, sorted, so that decisions can be repeated.
	order []string
	pods  map[types.UID]place
	users map[types.NamespacedName]int // of claims: how many pods that are placed use one
}

type place struct {
	pod     *Pod
	node    string
	assumed bool
}

// New makes an empty cache.
func New() *Cache {
	return &Cache{nodes: map[string]*Node{}, pods: map[types.UID]place{}, users: map[types.NamespacedName]int{}}
}

// SetNode adds a node or replaces what is known of it.
func (c *Cache) SetNode(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(node.Name)
	if n.Node == nil {
		at, _ := slices.BinarySearch(c.order, node.Name)
		c.order = slices.Insert(c.order, at, node.Name)
	}
	n.Node, n.Allocatable = node, ResourcesOf(node.Status.Allocatable)
}

// RemoveNode forgets a node. Its pods are remembered until they are removed, in case the node comes back.
func (c *Cache) RemoveNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[name]
	if n == nil || n.Node == nil {
		return
	}
	n.Node = nil
	if at, found := slices.BinarySearch(c.order, name); found {
		c.order = slices.Delete(c.order, at, at+1)
	}
	c.dropIfEmpty(name)
}

// node returns the entry of that name, made if need be: pods may be seen before their node.
func (c *Cache) node(name string) *Node {
	n := c.nodes[name]
	if n == nil {
		n = &Node{Pods: map[types.UID]*Pod{}}
		c.nodes[name] = n
	}
	return n
}

func (c *Cache) dropIfEmpty(name string) {
	if n := c.nodes[name]; n != nil && n.Node == nil && len(n.Pods) == 0 {
		delete(c.nodes, name)
	}
}

// AddPod takes in a bound pod, or a new state of one.
func (c *Cache) AddPod(pod *Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(pod.UID)
	c.put(pod, pod.Spec.NodeName, false)
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
	return len(c.order)
}

func (c *Cache) put(pod *Pod, node string, assumed bool) {
	n := c.node(node)
	n.Pods[pod.UID] = pod
	n.Requested.add(pod.Requests, 1)
	n.NonZero.add(pod.NonZero, 1)
	for _, claim := range pod.Claims {
		c.users[claim]++
	}
	c.pods[pod.UID] = place{pod: pod, node: node, assumed: assumed}
}

func (c *Cache) remove(uid types.UID) {
	at, ok := c.pods[uid]
	if !ok {
		return
	}
	n := c.nodes[at.node]
	delete(n.Pods, uid)
	n.Requested.add(at.pod.Requests, -1)
	n.NonZero.add(at.pod.NonZero, -1)
	for _, claim := range at.pod.Claims {
		if c.users[claim]--; c.users[claim] == 0 {
			delete(c.users, claim)
		}
	}
	delete(c.pods, uid)
	c.dropIfEmpty(at.node)
}

// Visit calls begin with the number of nodes, then fn for each, beginning with the start-th in the order of names (modulo
// their number), until fn returns false. It returns how many nodes were visited and how many there are. The cache is
// locked meanwhile.
func (c *Cache) Visit(start int, fn func(*Node) bool, begin func(total int)) (visited, total int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	total = len(c.order)
	begin(total)
	for i := range total {
		visited++
		if !fn(c.nodes[c.order[(start+i)%total]]) {
			break
		}
	}
	return visited, total
}
