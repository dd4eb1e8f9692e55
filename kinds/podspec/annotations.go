package podspec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateAnnotations checks the annotations that say something about a pod's spec.
func validateAnnotations(annotations map[string]string, spec *corev1.PodSpec, path *field.Path, opts Options) field.ErrorList {
	var errs field.ErrorList
	if value, ok := annotations[corev1.MirrorPodAnnotationKey]; ok && spec.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(corev1.MirrorPodAnnotationKey), value, "must set spec.nodeName if mirror pod annotation is set"))
	}
	if value := annotations[corev1.TolerationsAnnotationKey]; value != "" {
		var tolerations []corev1.Toleration
		if err := json.Unmarshal([]byte(value), &tolerations); err != nil {
			errs = append(errs, field.Invalid(path, corev1.TolerationsAnnotationKey, err.Error()))
		} else {
			errs = append(errs, ValidateTolerations(tolerations, path.Child(corev1.TolerationsAnnotationKey))...)
		}
	}
	if !validDeletionCost(annotations) && (opts.Old == nil || validDeletionCost(opts.OldAnnotations)) {
		errs = append(errs, field.Invalid(path.Key(corev1.PodDeletionCost), annotations[corev1.PodDeletionCost], "must be a 32bit integer"))
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[key]
		if key == corev1.SeccompPodAnnotationKey || strings.HasPrefix(key, corev1.SeccompContainerAnnotationKeyPrefix) {
			errs = append(errs, validateSeccompAnnotation(value, path.Child(key))...)
		}
		if container, ok := strings.CutPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix); ok {
			errs = append(errs, validateAppArmorAnnotation(container, value, spec, path.Key(key))...)
		}
	}
	return errs
}

// validDeletionCost says whether the annotation that ranks a replica set's pods for deletion is absent or a number.
func validDeletionCost(annotations map[string]string) bool {
	value, ok := annotations[corev1.PodDeletionCost]
	if !ok {
		return true
	}
	// "+1" and "01" sort as other texts than the numbers they stand for.
	if len(value) == 0 || value[0] == '+' || (len(value) > 1 && value[0] == '0') {
		return false
	}
	_, err := strconv.ParseInt(value, 10, 32)
	return err == nil
}

func validateSeccompAnnotation(value string, path *field.Path) field.ErrorList {
	switch value {
	case annotationRuntimeDefault, annotationDockerDefault, annotationUnconfined:
		return nil
	}
	if profile, ok := strings.CutPrefix(value, annotationLocalhost); ok {
		return relativePath(profile, path)
	}
	return field.ErrorList{field.Invalid(path, value, "must be a valid seccomp profile")}
}

func validateAppArmorAnnotation(container, value string, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := false
	VisitContainers(spec, path, func(c *corev1.Container, _ *field.Path) { found = found || c.Name == container })
	if !found {
		errs = append(errs, field.Invalid(path, container, "container not found"))
	}
	if value != "" && value != annotationRuntimeDefault && value != annotationUnconfined && !strings.HasPrefix(value, annotationLocalhost) {
		errs = append(errs, field.Invalid(path, value, fmt.Sprintf("invalid AppArmor profile name: %q", value)))
	}
	return errs
}
