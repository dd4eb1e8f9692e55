// Package podcontainers goes through the containers of a pod.
package podcontainers

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// All goes through the init containers of a pod, its own and its ephemeral ones.
func All(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				if !yield(&containers[i]) {
					return
				}
			}
		}
		for i := range pod.Spec.EphemeralContainers {
			if !yield((*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)) {
				return
			}
		}
	}
}
