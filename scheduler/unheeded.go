package scheduler

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What pods may ask for and this scheduler does not know yet. A pod that would run without what it cannot do without waits; of other
// rules that are not kept its events tell.

// unheeded lists the rules of a pod that were not looked at, and would have been with the plug-ins of its profile. Preferences are not among
// them: they may always go unfulfilled.
func (p *profile) unheeded(pod *corev1.Pod) (fields []string) {
	if p.Filters[interPodAffinity] {
		if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			fields = append(fields, "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution")
		}
		if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			fields = append(fields, "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution")
		}
	}
	if p.Filters[podTopologySpread] && slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.DoNotSchedule }) {
		fields = append(fields, "spec.topologySpreadConstraints")
	}
	return fields
}

// tellUnheeded makes an event of the rules that were not looked at when a pod was bound.
func (p *profile) tellUnheeded(pod *corev1.Pod) {
	if fields := p.unheeded(pod); len(fields) > 0 {
		p.recorder.Eventf(pod, corev1.EventTypeWarning, "ConstraintsIgnored", "Assigned without regard to %s: this scheduler does not know that yet", strings.Join(fields, ", "))
	}
}
