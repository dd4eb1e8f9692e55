package kubelet_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A pod that names a resource claim does not run without its device, whoever has sent it to the node, and can be deleted.
func TestResourceClaims_AreWaitedFor(t *testing.T) {
	c, r := startCluster(t), record()
	c.run(t, r, r.replaceParts)
	c.create(t, "p", func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("mine")}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	})
	c.hasEvent(t, "p", "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: devices of resource claims cannot be prepared yet, and the pod names some (gpu)")
	pod := c.wait(t, "p", "is taken note of", func(p *corev1.Pod) bool { return p.Status.StartTime != nil })
	if s := only(pod); pod.Status.Phase != corev1.PodPending || s.State.Waiting == nil || s.State.Waiting.Reason != "ContainerCreating" {
		t.Errorf("status %+v", pod.Status)
	}
	c.remove(t, "p", 1)
	c.waitGone(t, "p")
	if got := r.diary.read("sandbox", "create", "mount"); got != "" {
		t.Errorf("meanwhile: %s", got)
	}
}
