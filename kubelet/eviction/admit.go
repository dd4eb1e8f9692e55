package eviction

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"vigil/kinds/podspec"
	"vigil/kubelet"
)

// systemCritical is the lowest priority of pods that the node cannot do without.
const systemCritical = 2 * 1000000000

// critical pods are never evicted: static ones, which nobody would start again, and those of system priority.
func critical(pod *corev1.Pod) bool {
	source, fromSource := pod.Annotations["kubernetes.io/config.source"]
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return fromSource && source != "api" || mirror || priority(pod) >= systemCritical
}

// Admit refuses pods while there is pressure: all of them, but under pressure of memory alone only those that ask for none.
func (m *Manager) Admit(pod *corev1.Pod, _ []*corev1.Pod) *kubelet.Refusal {
	conditions := m.conditionsNow()
	if len(conditions) == 0 || critical(pod) {
		return nil
	}
	if len(conditions) == 1 && conditions[0] == corev1.NodeMemoryPressure {
		if podspec.QOSClass(&pod.Spec) != corev1.PodQOSBestEffort || toleratesMemoryPressure(pod) {
			return nil
		}
	}
	return &kubelet.Refusal{Reason: Reason, Message: fmt.Sprintf("The node had condition: %v. ", conditions)}
}

func toleratesMemoryPressure(pod *corev1.Pod) bool {
	taint := corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			return false
		}
		return t.Operator == corev1.TolerationOpExists || (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Value == taint.Value && t.Key != ""
	})
}
