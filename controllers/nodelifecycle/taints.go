package nodelifecycle

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// conditionTaints are the taints that conditions with a status bring.
var conditionTaints = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	key       string
}{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, "", corev1.TaintNodeNotReady}, // the kubelet has said nothing yet
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
}

// noSchedule returns the keys of the NoSchedule taints that a node should have of those that this controller manages.
func noSchedule(n *corev1.Node) []string {
	var keys []string
	for _, row := range conditionTaints {
		var status corev1.ConditionStatus
		if c := condition(n, row.condition); c != nil {
			status = c.Status
		}
		if status == row.status {
			keys = append(keys, row.key)
		}
	}
	if n.Spec.Unschedulable {
		keys = append(keys, corev1.TaintNodeUnschedulable)
	}
	return keys
}

// managed says that a NoSchedule taint comes and goes with what noSchedule reads.
func managed(key string) bool {
	for _, row := range conditionTaints {
		if row.key == key {
			return true
		}
	}
	return key == corev1.TaintNodeUnschedulable
}

// noExecute is the key of the NoExecute taint that a node should have, "" for none.
func noExecute(n *corev1.Node) string {
	switch ready(n) {
	case corev1.ConditionFalse:
		return corev1.TaintNodeNotReady
	case corev1.ConditionUnknown:
		return corev1.TaintNodeUnreachable
	}
	return ""
}

// desiredTaints returns a node's taints as they should be. Those of others stay as they are, as do the times of those that stay.
func desiredTaints(n *corev1.Node, schedule []string, execute string, now metav1.Time) []corev1.Taint {
	var taints []corev1.Taint
	have := map[string]bool{}
	for _, t := range n.Spec.Taints {
		switch {
		case t.Effect == corev1.TaintEffectNoSchedule && managed(t.Key):
			if !slices.Contains(schedule, t.Key) {
				continue
			}
			have[t.Key] = true
		case t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable):
			if t.Key != execute {
				continue
			}
			execute = ""
		}
		taints = append(taints, t)
	}
	for _, key := range schedule {
		if !have[key] {
			taints = append(taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &now})
		}
	}
	if execute != "" {
		taints = append(taints, corev1.Taint{Key: execute, Effect: corev1.TaintEffectNoExecute, TimeAdded: &now})
	}
	return taints
}

// evicting says that a node has a NoExecute taint of this controller already.
func evicting(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable)
	})
}

// taint gives a node the taints that it should have. wait is when to look again, 0 when all is done.
func (c *Controller) taint(ctx context.Context, n *corev1.Node) (wait time.Duration, err error) {
	execute := noExecute(n)
	admitted := false
	switch {
	case execute == "":
	case c.zones.disrupted():
		execute, wait = "", recheck
	case !evicting(n):
		if admitted, wait = c.zones.admit(n.Name, time.Now()); !admitted {
			execute = ""
		}
	}
	taints := desiredTaints(n, noSchedule(n), execute, now())
	if slices.EqualFunc(n.Spec.Taints, taints, func(a, b corev1.Taint) bool { return a.Key == b.Key && a.Effect == b.Effect && a.Value == b.Value }) {
		return wait, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion},
		"spec":     map[string]any{"taints": taints}, // nil, which is null, takes them all away
	})
	if err != nil {
		return 0, err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && admitted {
		c.zones.retract(n.Name)
	}
	return wait, err
}
