package plugins

import (
	corev1 "k8s.io/api/core/v1"

	"vigil/scheduler/nodecache"
)

func taintToleration(pod *nodecache.Pod, node *nodecache.Node) []string {
	taints := node.Node.Spec.Taints
	for i := range taints {
		if taints[i].Effect == corev1.TaintEffectPreferNoSchedule || tolerated(pod.Spec.Tolerations, &taints[i]) {
			continue
		}
		return []string{"node(s) had untolerated taint(s)"}
	}
	return nil
}

// intolerableTaints counts the taints that merely ask pods to stay away, and that the pod does not tolerate.
func intolerableTaints(pod *nodecache.Pod, node *nodecache.Node) int64 {
	var n int64
	taints := node.Node.Spec.Taints
	for i := range taints {
		if taints[i].Effect == corev1.TaintEffectPreferNoSchedule && !tolerated(pod.Spec.Tolerations, &taints[i]) {
			n++
		}
	}
	return n
}

// tolerated follows the rules of corev1.Toleration: an empty effect matches all effects, an empty key with Exists matches
// all taints.
func tolerated(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	for i := range tolerations {
		t := &tolerations[i]
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			return true
		case "", corev1.TolerationOpEqual:
			if t.Key != "" && t.Value == taint.Value {
				return true
			}
		}
	}
	return false
}
