package core

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/podspec"
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

// validatePodEphemeralContainersUpdate lets containers be added, in any order, and none be changed or taken away.
func validatePodEphemeralContainersUpdate(obj, old kinds.Object) field.ErrorList {
	pod, oldPod := obj.(*corev1.Pod), old.(*corev1.Pod)
	if isMirror(oldPod) {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	errs := podspec.ValidatePod(pod, optionsFor(oldPod))
	path := field.NewPath("spec", "ephemeralContainers")
	byName := map[string]*corev1.EphemeralContainer{}
	for i := range pod.Spec.EphemeralContainers {
		byName[pod.Spec.EphemeralContainers[i].Name] = &pod.Spec.EphemeralContainers[i]
	}
	for _, before := range oldPod.Spec.EphemeralContainers {
		now := byName[before.Name]
		if now == nil {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", before.Name)))
		} else if !equality.Semantic.DeepEqual(before, *now) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", before.Name, cmp.Diff(before, *now))))
		}
	}
	return errs
}
