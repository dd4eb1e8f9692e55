package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

// validateClaimUpdate lets little of a claim change: its volume and its class once, and the size and the attributes of a
// bound one. The size may go down again, as long as the volume has not grown.
func validateClaimUpdate(claim, old *corev1.PersistentVolumeClaim) field.ErrorList {
	path := field.NewPath("spec")
	errs := podspec.ValidateClaimSpec(&claim.Spec, path)
	now, was := claim.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName
	}
	if classFromAnnotation(claim, old) {
		now.StorageClassName = nil
	} else {
		if claim.Annotations[corev1.BetaStorageClassAnnotation] != old.Annotations[corev1.BetaStorageClassAnnotation] {
			errs = append(errs, field.Invalid(field.NewPath("metadata").Child("annotations").Key(corev1.BetaStorageClassAnnotation),
				claim.Annotations[corev1.BetaStorageClassAnnotation], apivalidation.FieldImmutableErrorMsg))
		}
		beta, annotated := old.Annotations[corev1.BetaStorageClassAnnotation]
		if now.StorageClassName != nil && was.StorageClassName == nil && (!annotated || *now.StorageClassName == beta) {
			now.StorageClassName = nil
		}
	}
	size, before := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if claim.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = before
		}
		if now.VolumeAttributesClassName != nil {
			now.VolumeAttributesClassName = was.VolumeAttributesClassName
		}
	}
	if !equality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf(
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v", cmp.Diff(was, now))))
	}
	if has := old.Status.Capacity[corev1.ResourceStorage]; size.Cmp(before) < 0 && size.Cmp(has) <= 0 {
		errs = append(errs, field.Forbidden(path.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	errs = append(errs, validate.Immutable(claim.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Spec.VolumeAttributesClassName != nil {
		at := path.Child("volumeAttributesClassName")
		switch class := claim.Spec.VolumeAttributesClassName; {
		case class == nil:
			errs = append(errs, field.Forbidden(at, "update from non-nil value to nil is forbidden"))
		case *class == "" && *old.Spec.VolumeAttributesClassName != "":
			errs = append(errs, field.Forbidden(at, "update from non-nil value to an empty string is forbidden"))
		}
	}
	return errs
}

// classFromAnnotation says that the update moves the class from the annotation of old to the field.
func classFromAnnotation(claim, old *corev1.PersistentVolumeClaim) bool {
	was, annotated := old.Annotations[corev1.BetaStorageClassAnnotation]
	now, still := claim.Annotations[corev1.BetaStorageClassAnnotation]
	class := claim.Spec.StorageClassName
	return annotated && old.Spec.StorageClassName == nil && class != nil && *class == was && (!still || now == was)
}

func validateClaimStatus(s *corev1.PersistentVolumeClaimStatus) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(s.Capacity)) {
		if q := s.Capacity[name]; q.Value() < 0 {
			errs = append(errs, field.Invalid(path.Child("capacity").Key(string(name)), q.Value(), "must be a valid resource quantity"))
		}
	}
	states := path.Child("allocatedResourceStatus")
	for _, name := range slices.Sorted(maps.Keys(s.AllocatedResourceStatuses)) {
		errs = append(errs, validateClaimResource(name, states)...)
		if !slices.Contains(resizeStates, s.AllocatedResourceStatuses[name]) {
			errs = append(errs, field.NotSupported(states, name, resizeStates))
		}
	}
	allocated := path.Child("allocatedResources")
	for _, name := range slices.Sorted(maps.Keys(s.AllocatedResources)) {
		if bad := validateClaimResource(name, allocated); len(bad) > 0 {
			errs = append(errs, bad...)
			continue
		}
		if q := s.AllocatedResources[name]; q.Value() < 0 {
			errs = append(errs, field.Invalid(allocated.Key(string(name)), q.Value(), "must be a valid resource quantity"))
		}
	}
	return errs
}

// validateClaimResource takes storage and resources of other domains.
func validateClaimResource(name corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := validate.QualifiedName(string(name), path)
	native := !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
	if len(errs) == 0 && native && name != corev1.ResourceStorage {
		errs = append(errs, field.NotSupported(path, string(name), []corev1.ResourceName{corev1.ResourceStorage}))
	}
	return errs
}
