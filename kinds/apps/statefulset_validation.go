package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

func validateStatefulSet(obj kinds.Object) field.ErrorList {
	return validateStatefulSetSpec(&obj.(*appsv1.StatefulSet).Spec, nil, field.NewPath("spec"))
}

// validateStatefulSetUpdate lets only some fields of the spec change. The name is not looked at again: names with dots
// were allowed once.
func validateStatefulSetUpdate(obj, old kinds.Object) field.ErrorList {
	path := field.NewPath("spec")
	spec, oldSpec := &obj.(*appsv1.StatefulSet).Spec, &old.(*appsv1.StatefulSet).Spec
	errs := validateStatefulSetSpec(spec, &oldSpec.Template, path)
	rest := *spec
	rest.Replicas = oldSpec.Replicas
	rest.Ordinals = oldSpec.Ordinals
	rest.Template = oldSpec.Template
	rest.UpdateStrategy = oldSpec.UpdateStrategy
	rest.RevisionHistoryLimit = oldSpec.RevisionHistoryLimit
	rest.PersistentVolumeClaimRetentionPolicy = oldSpec.PersistentVolumeClaimRetentionPolicy
	rest.MinReadySeconds = oldSpec.MinReadySeconds
	if !equality.Semantic.DeepEqual(rest, *oldSpec) {
		errs = append(errs, field.Forbidden(path, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "+
			"'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"))
	}
	return errs
}

func validateStatefulSetSpec(spec *appsv1.StatefulSetSpec, oldTemplate *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch at := path.Child("podManagementPolicy"); spec.PodManagementPolicy {
	case "":
		errs = append(errs, field.Required(at, ""))
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		errs = append(errs, field.Invalid(at, spec.PodManagementPolicy, "must be 'OrderedReady' or 'Parallel'"))
	}
	errs = append(errs, validateStatefulSetStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	if retention := spec.PersistentVolumeClaimRetentionPolicy; retention != nil {
		at := path.Child("persistentVolumeClaimRetentionPolicy")
		errs = append(errs, validateClaimRetention(retention.WhenDeleted, at.Child("whenDeleted"))...)
		errs = append(errs, validateClaimRetention(retention.WhenScaled, at.Child("whenScaled"))...)
	}
	errs = append(errs, validate.NonNegativePtr(spec.Replicas, path.Child("replicas"))...)
	errs = append(errs, validate.NonNegative(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	if spec.Ordinals != nil {
		errs = append(errs, validate.NonNegative(int64(spec.Ordinals.Start), path.Child("ordinals.start"))...)
	}
	errs = append(errs, validateSelector(spec.Selector, "statefulset", path.Child("selector"))...)
	return append(errs, validateStatefulSetTemplate(&spec.Template, spec.Selector, path.Child("template"), path.Child("selector"), oldTemplate)...)
}

// validateStatefulSetTemplate looks at little of the pod spec: volumes that containers mount may come from the claim
// templates, and the pods are checked anyway when they are made.
func validateStatefulSetTemplate(template *corev1.PodTemplateSpec, selector *metav1.LabelSelector, path, selectorPath *field.Path, old *corev1.PodTemplateSpec) field.ErrorList {
	var errs field.ErrorList
	if s, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		errs = append(errs, field.Invalid(selectorPath, selector, ""))
	} else {
		if !s.Empty() && !s.Matches(labels.Set(template.Labels)) {
			errs = append(errs, field.Invalid(path.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
		}
		var opts podspec.Options
		if old != nil {
			opts.Old, opts.OldAnnotations = &old.Spec, old.Annotations
		}
		errs = append(errs, podspec.ValidateTemplateMetadata(template, path, opts)...)
	}
	if template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), template.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in StatefulSet is not Supported"))
	}
	return errs
}

func validateStatefulSetStrategy(s *appsv1.StatefulSetUpdateStrategy, path *field.Path) field.ErrorList {
	at := path.Child("rollingUpdate")
	switch s.Type {
	case "":
		return field.ErrorList{field.Required(path, "")}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Invalid(at, s.RollingUpdate, fmt.Sprintf("only allowed for updateStrategy '%s'", appsv1.RollingUpdateStatefulSetStrategyType))}
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if s.RollingUpdate == nil {
			return nil
		}
		errs := validate.NonNegativePtr(s.RollingUpdate.Partition, at.Child("partition"))
		if unavailable := s.RollingUpdate.MaxUnavailable; unavailable != nil {
			at := at.Child("maxUnavailable")
			errs = append(errs, validate.IntOrPercent(*unavailable, at)...)
			if validate.IntOrPercentValue(*unavailable) == 0 {
				errs = append(errs, field.Invalid(at, *unavailable, "cannot be 0"))
			}
			errs = append(errs, validate.NotOver100Percent(*unavailable, at)...)
		}
		return errs
	default:
		return field.ErrorList{field.Invalid(path, s, "must be 'RollingUpdate' or 'OnDelete'")}
	}
	return nil
}

func validateClaimRetention(policy appsv1.PersistentVolumeClaimRetentionPolicyType, path *field.Path) field.ErrorList {
	supported := []appsv1.PersistentVolumeClaimRetentionPolicyType{
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	for _, s := range supported {
		if policy == s {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, policy, supported)}
}

func validateStatefulSetStatusUpdate(obj, old kinds.Object) field.ErrorList {
	path := field.NewPath("status")
	s, before := &obj.(*appsv1.StatefulSet).Status, &old.(*appsv1.StatefulSet).Status
	errs := validateCounters(path,
		counter{"replicas", int64(s.Replicas)},
		counter{"readyReplicas", int64(s.ReadyReplicas)},
		counter{"currentReplicas", int64(s.CurrentReplicas)},
		counter{"updatedReplicas", int64(s.UpdatedReplicas)},
		counter{"availableReplicas", int64(s.AvailableReplicas)},
		counter{"observedGeneration", s.ObservedGeneration},
		counter{"collisionCount", int64(ptr.Deref(s.CollisionCount, 0))})
	errs = append(errs, validateNotAbove(path, s.Replicas, "status.replicas",
		counter{"readyReplicas", int64(s.ReadyReplicas)},
		counter{"currentReplicas", int64(s.CurrentReplicas)},
		counter{"updatedReplicas", int64(s.UpdatedReplicas)},
		counter{"availableReplicas", int64(s.AvailableReplicas)})...)
	errs = append(errs, validateNotAbove(path, s.ReadyReplicas, "status.readyReplicas",
		counter{"availableReplicas", int64(s.AvailableReplicas)})...)
	return append(errs, validateCollisions(s.CollisionCount, before.CollisionCount, path)...)
}

func statefulSetWarnings(obj, old kinds.Object) []string {
	s := obj.(*appsv1.StatefulSet)
	var oldTemplate *corev1.PodTemplateSpec
	if old != nil {
		oldTemplate = &old.(*appsv1.StatefulSet).Spec.Template
	}
	path := field.NewPath("spec")
	warnings := warnTemplate(&s.Spec.Template, oldTemplate)
	for i := range s.Spec.VolumeClaimTemplates {
		warnings = append(warnings, podspec.WarningsForClaimSpec(&s.Spec.VolumeClaimTemplates[i].Spec, path.Child("volumeClaimTemplates").Index(i))...)
	}
	if limit := s.Spec.RevisionHistoryLimit; limit != nil && *limit < 0 {
		warnings = append(warnings, path.Child("revisionHistoryLimit").String()+": a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return warnings
}
