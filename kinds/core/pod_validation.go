package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/podspec"
)

func validatePod(obj kinds.Object) field.ErrorList {
	pod := obj.(*corev1.Pod)
	return podspec.Validate(&pod.Spec, &pod.ObjectMeta, field.NewPath("spec"), podspec.Options{Pod: true})
}

func validatePodUpdate(obj, old kinds.Object) field.ErrorList { return nil }

func podWarnings(obj, old kinds.Object) []string { return nil }
