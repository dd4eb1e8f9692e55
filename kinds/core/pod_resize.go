package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
)

// preparePodResize keeps everything but resources and resize policies. When containers come, go or change places the
// object stays as it came and validation refuses it.
func preparePodResize(obj, old kinds.Object) {
	pod, oldPod := obj.(*corev1.Pod), old.(*corev1.Pod)
	containers, ok := withResources(oldPod.Spec.Containers, pod.Spec.Containers)
	inits, initsOK := withResources(oldPod.Spec.InitContainers, pod.Spec.InitContainers)
	if !ok || !initsOK {
		return
	}
	resources := pod.Spec.Resources
	pod.Spec = oldPod.Spec
	pod.Spec.Containers, pod.Spec.InitContainers = containers, inits
	pod.Spec.Resources = resources
	pod.Status = oldPod.Status
	keepMetadata(obj, old)
}

// withResources is old with the resources and resize policies of updated, or false when they are not the same
// containers in the same order.
func withResources(old, updated []corev1.Container) ([]corev1.Container, bool) {
	if !slices.EqualFunc(old, updated, func(a, b corev1.Container) bool { return a.Name == b.Name }) {
		return nil, false
	}
	out := slices.Clone(old)
	for i := range out {
		out[i].Resources, out[i].ResizePolicy = updated[i].Resources, updated[i].ResizePolicy
	}
	return out, true
}

// keepMetadata puts back the metadata that a subresource of a part of the spec does not touch.
func keepMetadata(obj, old metav1.Object) {
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetGeneration(old.GetGeneration())
	obj.SetSelfLink(old.GetSelfLink())
	obj.SetLabels(old.GetLabels())
	obj.SetAnnotations(old.GetAnnotations())
	obj.SetFinalizers(old.GetFinalizers())
	obj.SetOwnerReferences(old.GetOwnerReferences())
}

func validatePodResize(obj, old kinds.Object) field.ErrorList { return nil }
