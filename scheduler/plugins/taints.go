package plugins

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
)

// taintToleration keeps pods off nodes whose taints they do not tolerate, and prefers nodes with few taints that only ask them to stay away.
type taintToleration struct{}

var untolerated = framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) had untolerated taint(s)")

// Name implements framework.Plugin.
func (taintToleration) Name() string { return TaintToleration }

// EventsToRegister implements framework.EnqueuePlugin.
func (taintToleration) EventsToRegister() framework.Event {
	return framework.NodeAdded | framework.NodeTaints
}

// Score implements framework.ScorePlugin.
func (taintToleration) Score(_ *framework.CycleState, pod *nodecache.Pod, node *nodecache.Node) int64 {
	return intolerableTaints(pod, node)
}

// NormalizeScore implements framework.ScoreNormalizer: the fewer taints the better.
func (taintToleration) NormalizeScore(_ *framework.CycleState, _ *nodecache.Pod, scores []int64) {
	spread(scores)
	for i := range scores {
		scores[i] = framework.MaxScore - scores[i]
	}
}

// spread puts scores between 0 and MaxScore, the highest at MaxScore.
func spread(scores []int64) {
	if highest := slices.Max(scores); highest > 0 {
		for i := range scores {
			scores[i] = scores[i] * framework.MaxScore / highest
		}
	}
}

// Filter implements framework.FilterPlugin.
func (taintToleration) Filter(_ *framework.CycleState, pod *nodecache.Pod, node *nodecache.Node) *framework.Status {
	taints := node.Node.Spec.Taints
	for i := range taints {
		if taints[i].Effect == corev1.TaintEffectPreferNoSchedule || tolerated(pod.Spec.Tolerations, &taints[i]) {
			continue
		}
		return untolerated
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
