package framework

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"vigil/scheduler/nodecache"
)

// Plugin has the name by which profiles call it, upstream's where upstream has such a plug-in.
type Plugin interface {
	Name() string
}

// PreFilterPlugin looks at a pod once. When it returns Skip, its Filter is not asked about the pod. When it refuses the pod, that holds for
// all nodes, and its one reason is what the pod is told.
type PreFilterPlugin interface {
	Plugin
	PreFilter(state *CycleState, pod *nodecache.Pod, nodes *nodecache.Snapshot) *Status
}

// FilterPlugin says whether a pod may run on a node.
type FilterPlugin interface {
	Plugin
	Filter(state *CycleState, pod *nodecache.Pod, node *nodecache.Node) *Status
}

// PostFilterPlugin is asked when no node is left, with the status that each node was refused by. It returns the name of a node that it has made
// room on, or will have; "" when it cannot help. The first that can is the last that is asked. Nothing writes the name into the pod: the plug-in
// does, or the pod is simply tried again.
type PostFilterPlugin interface {
	Plugin
	PostFilter(ctx context.Context, state *CycleState, pod *nodecache.Pod, nodes *nodecache.Snapshot, refused map[string]*Status) (nominated string, status *Status)
}

// PreScorePlugin looks at a pod and the nodes that are left, of which there are at least two. When it returns Skip, its Score is not asked.
type PreScorePlugin interface {
	Plugin
	PreScore(state *CycleState, pod *nodecache.Pod, nodes []*nodecache.Node) *Status
}

// MaxScore is the best score of one plug-in, before its weight.
const MaxScore = 100

// ScorePlugin says how good a node is for a pod: 0 to MaxScore, or anything that its NormalizeScore makes into that.
type ScorePlugin interface {
	Plugin
	Score(state *CycleState, pod *nodecache.Pod, node *nodecache.Node) int64
}

// ScoreNormalizer is a ScorePlugin that compares the nodes. It replaces the scores.
type ScoreNormalizer interface {
	ScorePlugin
	NormalizeScore(state *CycleState, pod *nodecache.Pod, scores []int64)
}

// ReservePlugin keeps from others what a pod needs on the chosen node. Unreserve takes that back when the pod is not bound after all, also when
// Reserve has failed or was not called; it must be possible to call it twice.
type ReservePlugin interface {
	Plugin
	Reserve(state *CycleState, pod *nodecache.Pod, node *corev1.Node) *Status
	Unreserve(state *CycleState, pod *nodecache.Pod, node *corev1.Node)
}

// PermitPlugin delays the binding of a pod or refuses it. It returns when it is decided, or ctx ends.
type PermitPlugin interface {
	Plugin
	Permit(ctx context.Context, state *CycleState, pod *nodecache.Pod, node *corev1.Node) *Status
}

// PreBindPlugin writes what must be there before a pod is bound. PreBindPreFlight says, without waiting, whether it has anything to do: Skip
// for nothing, and then PreBind is not called. PreBind may wait for others, until ctx ends.
type PreBindPlugin interface {
	Plugin
	PreBindPreFlight(state *CycleState, pod *nodecache.Pod, node *corev1.Node) *Status
	PreBind(ctx context.Context, state *CycleState, pod *nodecache.Pod, node *corev1.Node) *Status
}

// BindPlugin writes the node into the pod, or returns Skip and leaves that to the next.
type BindPlugin interface {
	Plugin
	Bind(ctx context.Context, state *CycleState, pod *nodecache.Pod, node *corev1.Node) *Status
}

// EnqueuePlugin names the events after which a pod that the plug-in has refused is tried again. A plug-in that refuses pods and is none has
// them tried again only when nodes are added.
type EnqueuePlugin interface {
	Plugin
	EventsToRegister() Event
}

// Event is something that happens in the cluster after which a pod that fitted nowhere may fit.
type Event uint8

// Events are bits, so that a plug-in can name several.
const (
	NodeAdded       Event = 1 << iota // a node appeared
	NodeAllocatable                   // a node has more to give
	NodeLabels                        // a node's labels changed
	NodeTaints                        // a node's taints or its unschedulable mark changed
	PodRemoved                        // a bound pod was deleted or has finished
	StorageChanged                    // a claim, a volume or a class changed
)
