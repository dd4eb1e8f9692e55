package namespace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// report writes into the namespace's conditions what is left, when that has changed and somebody will see it.
func (c *Controller) report(ctx context.Context, ns *corev1.Namespace, left *remains, seen bool) (*corev1.Namespace, error) {
	if !seen {
		return ns, nil
	}
	next := ns.DeepCopy()
	if !setConditions(&next.Status, conditions(left)) {
		return ns, nil
	}
	return c.client.CoreV1().Namespaces().UpdateStatus(ctx, next, metav1.UpdateOptions{})
}

// conditions describes what is left with upstream's reasons and texts, which people and tools look for.
func conditions(left *remains) []corev1.NamespaceCondition {
	row := func(t corev1.NamespaceConditionType, bad bool, badReason, badText, goodReason, goodText string) corev1.NamespaceCondition {
		if bad {
			return corev1.NamespaceCondition{Type: t, Status: corev1.ConditionTrue, Reason: badReason, Message: badText}
		}
		return corev1.NamespaceCondition{Type: t, Status: corev1.ConditionFalse, Reason: goodReason, Message: goodText}
	}
	var objects, finalizers []string
	for gvr, n := range left.objects {
		objects = append(objects, fmt.Sprintf("%s.%s has %d resource instances", gvr.Resource, gvr.Group, n))
	}
	slices.Sort(objects)
	for _, f := range slices.Sorted(maps.Keys(left.finalizers)) {
		finalizers = append(finalizers, fmt.Sprintf("%s in %d resource instances", f, left.finalizers[f]))
	}
	return []corev1.NamespaceCondition{
		row(corev1.NamespaceDeletionDiscoveryFailure, len(left.discovery) > 0,
			"DiscoveryFailed", fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(left.discovery), errors.Join(left.discovery...)),
			"ResourcesDiscovered", "All resources successfully discovered"),
		row(corev1.NamespaceDeletionGVParsingFailure, len(left.parsing) > 0,
			"GroupVersionParsingFailed", fmt.Sprint(errors.Join(left.parsing...)),
			"ParsedGroupVersions", "All legacy kube types successfully parsed"),
		row(corev1.NamespaceDeletionContentFailure, len(left.deletion) > 0,
			"ContentDeletionFailed", fmt.Sprintf("Failed to delete all resource types, %d remaining: %v", len(left.deletion), errors.Join(left.deletion...)),
			"ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
		row(corev1.NamespaceContentRemaining, len(objects) > 0,
			"SomeResourcesRemain", "Some resources are remaining: "+strings.Join(objects, ", "),
			"ContentRemoved", "All content successfully removed"),
		row(corev1.NamespaceFinalizersRemaining, len(finalizers) > 0,
			"SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+strings.Join(finalizers, ", "),
			"ContentHasNoFinalizers", "All content-preserving finalizers finished"),
	}
}

// setConditions puts conditions into a status and says whether that changed it.
func setConditions(status *corev1.NamespaceStatus, conditions []corev1.NamespaceCondition) (changed bool) {
	now := metav1.Now().Rfc3339Copy()
	for _, next := range conditions {
		next.LastTransitionTime = now
		at := slices.IndexFunc(status.Conditions, func(c corev1.NamespaceCondition) bool { return c.Type == next.Type })
		if at < 0 {
			status.Conditions = append(status.Conditions, next)
			changed = true
			continue
		}
		old := &status.Conditions[at]
		if old.Status == next.Status {
			next.LastTransitionTime = old.LastTransitionTime
		}
		if old.Status != next.Status || old.Reason != next.Reason || old.Message != next.Message {
			*old = next
			changed = true
		}
	}
	return changed
}
