package plugins

import (
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
)

// nodeAffinity keeps pods to the nodes that they, or the profile for all its pods, ask for, and prefers those that they prefer.
type nodeAffinity struct {
	required  *nodeaffinity.NodeSelector             // of the profile; nil: all nodes
	preferred *nodeaffinity.PreferredSchedulingTerms // of the profile; nil: none
}

func newNodeAffinity(args Args) nodeAffinity {
	required, preferred := args.addedAffinity()
	return nodeAffinity{required, preferred}
}

var (
	notEnforced = framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) didn't match scheduler-enforced node affinity")
	notAskedFor = framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) didn't match Pod's node affinity/selector")
)

// Name implements framework.Plugin.
func (nodeAffinity) Name() string { return NodeAffinity }

// EventsToRegister implements framework.EnqueuePlugin.
func (nodeAffinity) EventsToRegister() framework.Event {
	return framework.NodeAdded | framework.NodeLabels
}

// Filter implements framework.FilterPlugin.
func (a nodeAffinity) Filter(_ *framework.CycleState, pod *nodecache.Pod, node *nodecache.Node) *framework.Status {
	if a.required != nil && !a.required.Match(node.Node) {
		return notEnforced
	}
	if ok, err := pod.Affinity.Match(node.Node); err != nil {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
	} else if !ok {
		return notAskedFor
	}
	return nil
}

// Score implements framework.ScorePlugin: the weights of the terms that a node meets.
func (a nodeAffinity) Score(_ *framework.CycleState, pod *nodecache.Pod, node *nodecache.Node) (score int64) {
	if a.preferred != nil {
		score = a.preferred.Score(node.Node)
	}
	if pod.Preferred != nil {
		score += pod.Preferred.Score(node.Node)
	}
	return score
}

// NormalizeScore implements framework.ScoreNormalizer.
func (nodeAffinity) NormalizeScore(_ *framework.CycleState, _ *nodecache.Pod, scores []int64) {
	spread(scores)
}
