package podspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MergeMatchLabelKeys writes the values that the pod's labels have for matchLabelKeys and mismatchLabelKeys into the
// selectors beside them: affinity terms and topology spread constraints (KEP-3633, KEP-3243). Keys that the pod does not have are
// skipped. It is done once, when a pod is created.
func MergeMatchLabelKeys(spec *corev1.PodSpec, labels map[string]string) {
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		c.LabelSelector = withLabelKeys(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
	}
	if spec.Affinity == nil {
		return
	}
	if a := spec.Affinity.PodAffinity; a != nil {
		mergeAffinityTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, labels)
	}
	if a := spec.Affinity.PodAntiAffinity; a != nil {
		mergeAffinityTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, labels)
	}
}

func mergeAffinityTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, labels map[string]string) {
	for i := range required {
		mergeAffinityTerm(&required[i], labels)
	}
	for i := range preferred {
		mergeAffinityTerm(&preferred[i].PodAffinityTerm, labels)
	}
}

func mergeAffinityTerm(t *corev1.PodAffinityTerm, labels map[string]string) {
	t.LabelSelector = withLabelKeys(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
	t.LabelSelector = withLabelKeys(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, labels)
}

// withLabelKeys returns the selector with one more requirement for each key; a nil selector, which matches nothing,
// stays nil.
func withLabelKeys(selector *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator, labels map[string]string) *metav1.LabelSelector {
	if selector == nil {
		return nil
	}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: key, Operator: op, Values: []string{value},
			})
		}
	}
	return selector
}
