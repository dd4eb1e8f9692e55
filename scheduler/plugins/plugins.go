// Package plugins has the plug-ins that look at a pod and its nodes alone: where it may run, and where it runs best. They keep no state, and
// know nothing of queues or the API.
package plugins

import (
	corev1 "k8s.io/api/core/v1"

	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
)

// Upstream's names of the plug-ins here. VolumeBinding, VolumeRestrictions and VolumeZone are scheduler/volumes.
const (
	NodeName          = "NodeName"
	NodeUnschedulable = "NodeUnschedulable"
	TaintToleration   = "TaintToleration"
	NodeAffinity      = "NodeAffinity"
	NodePorts         = "NodePorts"
	NodeResourcesFit  = "NodeResourcesFit"
	DynamicResources  = "DynamicResources"

	NodeResourcesBalancedAllocation = "NodeResourcesBalancedAllocation"
)

// All returns all plug-ins, those with cheap filters first.
func All(args Args) []framework.Plugin {
	return []framework.Plugin{
		dynamicResources{}, nodeName{}, nodeUnschedulable{}, taintToleration{}, newNodeAffinity(args), nodePorts{}, newFit(args), balancedAllocation{of: args.balance()},
	}
}

// Weights are upstream's of the scores that there are.
func Weights() map[string]int64 {
	return map[string]int64{TaintToleration: 3, NodeAffinity: 2, NodeResourcesFit: 1, NodeResourcesBalancedAllocation: 1}
}

// nodeName keeps pods to the node that their spec names.
type nodeName struct{}

var otherName = framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) didn't match the requested node name")

// Name implements framework.Plugin.
func (nodeName) Name() string { return NodeName }

// EventsToRegister implements framework.EnqueuePlugin.
func (nodeName) EventsToRegister() framework.Event { return framework.NodeAdded }

// Filter implements framework.FilterPlugin.
func (nodeName) Filter(_ *framework.CycleState, pod *nodecache.Pod, node *nodecache.Node) *framework.Status {
	if pod.Spec.NodeName == "" || pod.Spec.NodeName == node.Node.Name {
		return nil
	}
	return otherName
}

// nodeUnschedulable keeps pods off nodes that are cordoned.
type nodeUnschedulable struct{}

var cordoned = framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) were unschedulable")

// Name implements framework.Plugin.
func (nodeUnschedulable) Name() string { return NodeUnschedulable }

// EventsToRegister implements framework.EnqueuePlugin.
func (nodeUnschedulable) EventsToRegister() framework.Event {
	return framework.NodeAdded | framework.NodeTaints
}

// Filter implements framework.FilterPlugin.
func (nodeUnschedulable) Filter(_ *framework.CycleState, pod *nodecache.Pod, node *nodecache.Node) *framework.Status {
	if !node.Node.Spec.Unschedulable || tolerated(pod.Spec.Tolerations, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return nil
	}
	return cordoned
}

// nodePorts keeps pods off nodes on which a port of theirs is taken by another pod.
type nodePorts struct{}

var portTaken = framework.NewStatus(framework.Unschedulable, "node(s) didn't have free ports for the requested pod ports")

// Name implements framework.Plugin.
func (nodePorts) Name() string { return NodePorts }

// EventsToRegister implements framework.EnqueuePlugin.
func (nodePorts) EventsToRegister() framework.Event {
	return framework.NodeAdded | framework.PodRemoved
}

// PreFilter implements framework.PreFilterPlugin.
func (nodePorts) PreFilter(_ *framework.CycleState, pod *nodecache.Pod, _ *nodecache.Snapshot) *framework.Status {
	if len(pod.Ports) == 0 {
		return skip
	}
	return nil
}

var skip = framework.NewStatus(framework.Skip)

// Filter implements framework.FilterPlugin.
func (nodePorts) Filter(_ *framework.CycleState, pod *nodecache.Pod, node *nodecache.Node) *framework.Status {
	for _, other := range node.Pods {
		for _, used := range other.Ports {
			for _, wanted := range pod.Ports {
				if wanted.Conflicts(used) {
					return portTaken
				}
			}
		}
	}
	return nil
}
