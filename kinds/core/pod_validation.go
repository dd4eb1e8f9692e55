package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/podspec"
)

func validatePod(obj kinds.Object) field.ErrorList {
	pod, spec := obj.(*corev1.Pod), field.NewPath("spec")
	errs := podspec.ValidatePod(pod, podspec.Options{})
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(spec.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(spec.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return append(errs, podspec.ValidateProfileAnnotations(pod.Annotations, &pod.Spec, spec)...)
}

// optionsFor tolerates what the stored pod has already.
func optionsFor(old *corev1.Pod) podspec.Options {
	return podspec.Options{Pod: true, Old: &old.Spec, OldAnnotations: old.Annotations}
}

func validatePodUpdate(obj, old kinds.Object) field.ErrorList {
	pod, oldPod := obj.(*corev1.Pod), old.(*corev1.Pod)
	errs := podspec.ValidatePod(pod, optionsFor(oldPod))
	errs = append(errs, validatePodAnnotationUpdate(pod, oldPod)...)
	return append(errs, podspec.ValidateUpdate(&pod.Spec, &oldPod.Spec, field.NewPath("spec"))...)
}

// validatePodAnnotationUpdate keeps the annotations that the kubelet acts on as they were when the pod was made.
func validatePodAnnotationUpdate(pod, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("metadata", "annotations")
	refuse := func(key, verb string) {
		switch {
		case strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix):
			errs = append(errs, field.Forbidden(path.Key(key), fmt.Sprintf("may not %s AppArmor annotations", verb)))
		case key == corev1.MirrorPodAnnotationKey:
			errs = append(errs, field.Forbidden(path.Key(key), fmt.Sprintf("may not %s mirror pod annotation", verb)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(old.Annotations)) {
		if value, ok := pod.Annotations[key]; !ok || value != old.Annotations[key] {
			refuse(key, "remove or update")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if _, ok := old.Annotations[key]; !ok {
			refuse(key, "add")
		}
	}
	return errs
}

// podWarnings warns about new pods only: updates come from controllers, in great numbers.
func podWarnings(obj, old kinds.Object) []string {
	if old != nil {
		return nil
	}
	pod := obj.(*corev1.Pod)
	var warnings []string
	if texts := validation.IsDNS1123Label(pod.Name); len(texts) > 0 {
		warnings = append(warnings, fmt.Sprintf("metadata.name: this is used in the Pod's hostname, "+
			"which can result in surprising behavior; a DNS label is recommended: %v", texts))
	}
	return append(warnings, podspec.WarningsForPod(pod)...)
}

// isMirror says whether a pod is the API's picture of a static pod, whose source is a file on its node.
func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}
