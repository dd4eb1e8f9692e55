package plugins

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
)

// fit keeps pods off nodes that have not enough left for them, and prefers nodes by what of their resources would be used.
type fit struct {
	ignored func(corev1.ResourceName) bool // nil: none
	score   func(pod *nodecache.Pod, node *nodecache.Node) int64
}

func newFit(args Args) fit { return fit{ignored: args.ignored(), score: args.allocation()} }

// Name implements framework.Plugin.
func (fit) Name() string { return NodeResourcesFit }

// EventsToRegister implements framework.EnqueuePlugin.
func (fit) EventsToRegister() framework.Event {
	return framework.NodeAdded | framework.NodeAllocatable | framework.PodRemoved
}

// Filter implements framework.FilterPlugin.
func (f fit) Filter(_ *framework.CycleState, pod *nodecache.Pod, node *nodecache.Node) *framework.Status {
	lacks := lacksOf(pod, node)
	if len(pod.Requests.Scalar) == 0 {
		return lacking[lacks]
	}
	reasons := append(slices.Clone(lacking[lacks].Reasons()), f.lacksScalar(pod, node)...)
	if len(reasons) == 0 {
		return nil
	}
	return framework.NewStatus(framework.Unschedulable, reasons...)
}

// Score implements framework.ScorePlugin.
func (f fit) Score(_ *framework.CycleState, pod *nodecache.Pod, node *nodecache.Node) int64 {
	return f.score(pod, node)
}

// balancedAllocation prefers nodes on which resources would be used to the same degree.
type balancedAllocation struct {
	of func(pod *nodecache.Pod, node *nodecache.Node) int64
}

// Name implements framework.Plugin.
func (balancedAllocation) Name() string { return NodeResourcesBalancedAllocation }

// Score implements framework.ScorePlugin.
func (b balancedAllocation) Score(_ *framework.CycleState, pod *nodecache.Pod, node *nodecache.Node) int64 {
	return b.of(pod, node)
}

// lacks says what a node has not enough of, of what every node has: a bit for each.
type lacks uint8

var lacksReasons = [...]string{"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"}

// lacking are the statuses for all that can be lacking: nil for nothing.
var lacking = func() (all [1 << len(lacksReasons)]*framework.Status) {
	for l := 1; l < len(all); l++ {
		var reasons []string
		for i, reason := range lacksReasons {
			if l>>i&1 == 1 {
				reasons = append(reasons, reason)
			}
		}
		all[l] = framework.NewStatus(framework.Unschedulable, reasons...)
	}
	return all
}()

func lacksOf(pod *nodecache.Pod, node *nodecache.Node) (l lacks) {
	want, used, has := &pod.Requests, &node.Requested, &node.Allocatable
	for i, enough := range [...]bool{
		used.Pods+want.Pods <= has.Pods,
		want.MilliCPU == 0 || want.MilliCPU <= has.MilliCPU-used.MilliCPU,
		want.Memory == 0 || want.Memory <= has.Memory-used.Memory,
		want.EphemeralStorage == 0 || want.EphemeralStorage <= has.EphemeralStorage-used.EphemeralStorage,
	} {
		if !enough {
			l |= 1 << i
		}
	}
	return l
}

// lacksScalar says of which extended resources and huge pages a node has not enough, sorted by their names.
func (f fit) lacksScalar(pod *nodecache.Pod, node *nodecache.Node) (reasons []string) {
	for _, name := range slices.Sorted(maps.Keys(pod.Requests.Scalar)) {
		want := pod.Requests.Scalar[name]
		if want > 0 && want > node.Allocatable.Scalar[name]-node.Requested.Scalar[name] && (f.ignored == nil || !f.ignored(name)) {
			reasons = append(reasons, "Insufficient "+string(name))
		}
	}
	return reasons
}
