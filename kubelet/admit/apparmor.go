package admit

import (
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet"
)

// AppArmor admits pods that want a profile only where the kernel can enforce one.
type AppArmor struct{ Enabled bool }

var _ kubelet.Admitter = AppArmor{}

// AppArmorEnabled asks the kernel.
func AppArmorEnabled() bool {
	enabled, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.HasPrefix(string(enabled), "Y")
}

// Admit implements kubelet.Admitter. A pod that has begun is not asked again.
func (a AppArmor) Admit(pod *corev1.Pod, _ []*corev1.Pod) *kubelet.Refusal {
	if a.Enabled || pod.Status.Phase != "" && pod.Status.Phase != corev1.PodPending || !wantsAppArmor(pod) {
		return nil
	}
	return &kubelet.Refusal{Reason: "AppArmor", Message: "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
}

func wantsAppArmor(pod *corev1.Pod) bool {
	confined := func(p *corev1.AppArmorProfile) bool {
		return p != nil && p.Type != corev1.AppArmorProfileTypeUnconfined
	}
	if s := pod.Spec.SecurityContext; s != nil && confined(s.AppArmorProfile) {
		return true
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if s := containers[i].SecurityContext; s != nil && confined(s.AppArmorProfile) {
				return true
			}
		}
	}
	for name, profile := range pod.Annotations { // of before they were fields
		if strings.HasPrefix(name, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) && profile != corev1.DeprecatedAppArmorBetaProfileNameUnconfined {
			return true
		}
	}
	return false
}
