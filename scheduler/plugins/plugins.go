// Package plugins decides where a pod may run (filters) and where it runs best (scores). A plug-in looks at one pod and
// one node, knows nothing of queues or the API, and keeps no state.
package plugins

import (
	corev1 "k8s.io/api/core/v1"

	"vigil/scheduler/nodecache"
)

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

// Filter is a rule that a node must keep.
type Filter struct {
	Name string
	// Helps are the events after which a pod that this filter refused everywhere is tried again.
	Helps Event
	// Check returns nothing when the pod may run on the node, else why not, in the words of upstream's events.
	Check func(pod *nodecache.Pod, node *nodecache.Node) (reasons []string)
}

// Score says how good a node is for a pod, from 0 to MaxScore, before Weight.
type Score struct {
	Name   string
	Weight int64
	// Normalize spreads the raw values of all candidates over 0..MaxScore afterwards; reverse makes small raw values good.
	Normalize, Reverse bool
	Of                 func(pod *nodecache.Pod, node *nodecache.Node) int64
}

// MaxScore is the best score of one plug-in.
const MaxScore = 100

// Filters are all filters, cheap ones first. The names are upstream's plug-in names.
func Filters() []Filter {
	return []Filter{
		{"NodeName", NodeAdded, nodeName},
		{"NodeUnschedulable", NodeAdded | NodeTaints, nodeUnschedulable},
		{"TaintToleration", NodeAdded | NodeTaints, taintToleration},
		{"NodeAffinity", NodeAdded | NodeLabels, nodeAffinity},
		{"NodePorts", NodeAdded | PodRemoved, nodePorts},
		{"NodeResourcesFit", NodeAdded | NodeAllocatable | PodRemoved, resourcesFit},
	}
}

// Scores are all scores with upstream's weights.
func Scores() []Score {
	return []Score{
		{Name: "TaintToleration", Weight: 3, Normalize: true, Reverse: true, Of: intolerableTaints},
		{Name: "NodeAffinity", Weight: 2, Normalize: true, Of: preferredAffinity},
		{Name: "NodeResourcesFit", Weight: 1, Of: leastAllocated},
		{Name: "NodeResourcesBalancedAllocation", Weight: 1, Of: balancedAllocation},
	}
}

func nodeName(pod *nodecache.Pod, node *nodecache.Node) []string {
	if pod.Spec.NodeName == "" || pod.Spec.NodeName == node.Node.Name {
		return nil
	}
	return []string{"node(s) didn't match the requested node name"}
}

func nodeUnschedulable(pod *nodecache.Pod, node *nodecache.Node) []string {
	if !node.Node.Spec.Unschedulable {
		return nil
	}
	if tolerated(pod.Spec.Tolerations, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return nil
	}
	return []string{"node(s) were unschedulable"}
}

func nodePorts(pod *nodecache.Pod, node *nodecache.Node) []string {
	if len(pod.Ports) == 0 {
		return nil
	}
	for _, other := range node.Pods {
		for _, used := range other.Ports {
			for _, wanted := range pod.Ports {
				if wanted.Conflicts(used) {
					return []string{"node(s) didn't have free ports for the requested pod ports"}
				}
			}
		}
	}
	return nil
}
