package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
)

// preparePodEphemeralContainers keeps everything but the ephemeral containers.
func preparePodEphemeralContainers(obj, old kinds.Object) {
	pod, oldPod := obj.(*corev1.Pod), old.(*corev1.Pod)
	containers := pod.Spec.EphemeralContainers
	pod.Spec = oldPod.Spec
	pod.Spec.EphemeralContainers = containers
	pod.Status = oldPod.Status
	keepMetadata(obj, old)
}

func validatePodEphemeralContainersUpdate(obj, old kinds.Object) field.ErrorList { return nil }
