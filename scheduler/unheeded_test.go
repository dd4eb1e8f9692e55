package scheduler_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that names a resource claim waits: it must not run without its device.
func TestScheduler_ResourceClaims(t *testing.T) {
	c := start(t)
	c.node("a", "4", nil)
	c.node("b", "4", nil)
	c.pod("p", "1", func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("mine")}, {Name: "nic", ResourceClaimTemplateName: new("any")}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	})
	const why = "0/2 nodes are available: devices of resource claims cannot be allocated yet, and the pod names some (gpu, nic)."
	c.refused("p", why)
	c.hasEvent("p", corev1.EventTypeWarning, "FailedScheduling", why)
	c.pod("other", "1", nil)
	c.wait("other", "is bound", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	if got := c.refused("p", why).Spec.NodeName; got != "" {
		t.Errorf("it is on %s", got)
	}
}

// Of rules that are not looked at the pod's events tell; not of preferences.
func TestScheduler_UnheededRules(t *testing.T) {
	c := start(t)
	c.node("a", "4", nil)
	term := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{}}
	spread := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{}}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"affinity": {func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
		}, "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"},
		"both": {func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spread}
		}, "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution, spec.topologySpreadConstraints"},
		"preferences": {func(p *corev1.Pod) {
			weighted := []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}}
			soft := spread
			soft.WhenUnsatisfiable = corev1.ScheduleAnyway
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{soft}
		}, ""},
	} {
		c.pod(name, "100m", test.change)
		c.bound(name, "a")
		c.hasEvent(name, corev1.EventTypeNormal, "Scheduled", "Successfully assigned default/"+name+" to a")
		if test.want != "" {
			c.hasEvent(name, corev1.EventTypeWarning, "ConstraintsIgnored", "Assigned without regard to "+test.want+": this scheduler does not know that yet")
		}
	}
	events, err := c.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=preferences,reason=ConstraintsIgnored"})
	if err != nil || len(events.Items) > 0 {
		t.Errorf("%v, %v", events.Items, err)
	}
}
