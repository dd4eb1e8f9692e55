package nodestatus

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pressures are the reasons of events about a node that begins, or ceases, to run short of something (nodestatus/setters.go).
var pressures = map[corev1.NodeConditionType]struct{ short, enough string }{
	corev1.NodeMemoryPressure: {"NodeHasInsufficientMemory", "NodeHasSufficientMemory"},
	corev1.NodeDiskPressure:   {"NodeHasDiskPressure", "NodeHasNoDiskPressure"},
	corev1.NodePIDPressure:    {"NodeHasInsufficientPID", "NodeHasSufficientPID"},
}

// reference names the Node as upstream's events do: by its name also where a UID is meant.
func (n *Reporter) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", Name: n.config.NodeName, UID: types.UID(n.config.NodeName)}
}

// tell makes events of what has changed about the node. before is the Node as the API server had it, without a status when it is new.
// A kubelet that starts also tells what the node has enough of. On nodes where nobody measures there is nothing to tell of that.
func (n *Reporter) tell(before *corev1.Node, status *corev1.NodeStatus) {
	conditions := before.Status.Conditions
	if !n.told {
		n.config.Recorder.Event(n.reference(), corev1.EventTypeNormal, "Starting", "Starting kubelet.")
		n.told, conditions = true, nil
	}
	if had, has := before.Status.NodeInfo.BootID, status.NodeInfo.BootID; had != "" && has != "" && had != has {
		n.config.Recorder.Eventf(n.reference(), corev1.EventTypeWarning, "Rebooted", "Node %s has been rebooted, boot id: %s", n.config.NodeName, has)
	}
	if n.config.Describe != nil {
		n.tellPressures(conditions, status)
	}
	if had := nodeCondition(before.Status.Conditions, corev1.NodeReady); had != nil && (had.Status == corev1.ConditionTrue) != isReady(*status) {
		n.statusIsNow(either(isReady(*status), "NodeReady", "NodeNotReady"))
	}
}

// tellSchedulable makes an event when the node was cordoned or uncordoned.
func (n *Reporter) tellSchedulable(node *corev1.Node) {
	if node.Spec.Unschedulable != n.unschedulable {
		n.unschedulable = node.Spec.Unschedulable
		n.statusIsNow(either(n.unschedulable, "NodeNotSchedulable", "NodeSchedulable"))
	}
}

func (n *Reporter) tellPressures(before []corev1.NodeCondition, status *corev1.NodeStatus) {
	for i := range status.Conditions {
		c := &status.Conditions[i]
		reasons, is := pressures[c.Type]
		if had := nodeCondition(before, c.Type); is && (had == nil || had.Status != c.Status) {
			n.statusIsNow(either(c.Status == corev1.ConditionTrue, reasons.short, reasons.enough))
		}
	}
}

func (n *Reporter) statusIsNow(reason string) {
	n.config.Recorder.Eventf(n.reference(), corev1.EventTypeNormal, reason, "Node %s status is now: %s", n.config.NodeName, reason)
}

// nodeCondition finds the condition of a type; nil when there is none.
func nodeCondition(conditions []corev1.NodeCondition, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

func either(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}
