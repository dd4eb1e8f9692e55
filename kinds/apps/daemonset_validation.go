package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

func validateDaemonSet(obj kinds.Object) field.ErrorList {
	return validateDaemonSetSpec(&obj.(*appsv1.DaemonSet).Spec, nil, field.NewPath("spec"))
}

func validateDaemonSetUpdate(obj, old kinds.Object) field.ErrorList {
	spec, oldSpec, path := &obj.(*appsv1.DaemonSet).Spec, &old.(*appsv1.DaemonSet).Spec, field.NewPath("spec")
	errs := validateDaemonSetSpec(spec, oldSpec, path)
	return append(errs, validate.Immutable(spec.Selector, oldSpec.Selector, path.Child("selector"))...)
}

// validateDaemonSetSpec checks a spec; old is nil on create. Other than with replica sets, a selector that is not there
// does not match the template and is no error of its own.
func validateDaemonSetSpec(spec, old *appsv1.DaemonSetSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var opts podspec.Options
	at := path.Child("selector")
	if old == nil {
		errs = validate.LabelSelector(spec.Selector, at)
	} else {
		errs = validate.LabelSelectorUpdate(spec.Selector, old.Selector, at)
		opts.Old, opts.OldAnnotations = &old.Template.Spec, old.Template.Annotations
	}
	template := path.Child("template")
	if s, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !s.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(template.Child("metadata", "labels"), spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	if spec.Selector != nil && len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(at, spec.Selector, "empty selector is invalid for daemonset"))
	}
	errs = append(errs, podspec.ValidateTemplate(&spec.Template, template, opts)...)
	if spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(template.Child("spec", "restartPolicy"), spec.Template.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if spec.Template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(template.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in DaemonSet is not Supported"))
	}
	errs = append(errs, validate.NonNegative(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	errs = append(errs, validateDaemonSetStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	return append(errs, validate.NonNegativePtr(spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
}

func validateDaemonSetStrategy(s *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
		at := path.Child("rollingUpdate")
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(at, "")}
		}
		return validateDaemonSetRollingUpdate(s.RollingUpdate, at)
	default:
		return field.ErrorList{field.NotSupported(path, s, []string{
			string(appsv1.RollingUpdateDaemonSetStrategyType), string(appsv1.OnDeleteDaemonSetStrategyType)})}
	}
}

// validateDaemonSetRollingUpdate wants exactly one of the two bounds: a node's pod is either replaced or doubled.
func validateDaemonSetRollingUpdate(r *appsv1.RollingUpdateDaemonSet, path *field.Path) field.ErrorList {
	unavailable, surge := ptr.Deref(r.MaxUnavailable, zero), ptr.Deref(r.MaxSurge, zero)
	atUnavailable, atSurge := path.Child("maxUnavailable"), path.Child("maxSurge")
	errs := validate.IntOrPercent(unavailable, atUnavailable)
	errs = append(errs, validate.IntOrPercent(surge, atSurge)...)
	errs = append(errs, validate.NotOver100Percent(unavailable, atUnavailable)...)
	errs = append(errs, validate.NotOver100Percent(surge, atSurge)...)
	switch hasUnavailable, hasSurge := validate.IntOrPercentValue(unavailable) != 0, validate.IntOrPercentValue(surge) != 0; {
	case hasUnavailable && hasSurge:
		errs = append(errs, field.Invalid(atSurge, surge, "may not be set when maxUnavailable is non-zero"))
	case !hasUnavailable && !hasSurge:
		errs = append(errs, field.Required(atUnavailable, "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

func validateDaemonSetStatusUpdate(obj, old kinds.Object) field.ErrorList {
	path := field.NewPath("status")
	s := &obj.(*appsv1.DaemonSet).Status
	errs := validateCounters(path,
		counter{"currentNumberScheduled", int64(s.CurrentNumberScheduled)},
		counter{"numberMisscheduled", int64(s.NumberMisscheduled)},
		counter{"desiredNumberScheduled", int64(s.DesiredNumberScheduled)},
		counter{"numberReady", int64(s.NumberReady)},
		counter{"observedGeneration", s.ObservedGeneration},
		counter{"updatedNumberScheduled", int64(s.UpdatedNumberScheduled)},
		counter{"numberAvailable", int64(s.NumberAvailable)},
		counter{"numberUnavailable", int64(s.NumberUnavailable)},
		counter{"collisionCount", int64(ptr.Deref(s.CollisionCount, 0))})
	return append(errs, validateCollisions(s.CollisionCount, old.(*appsv1.DaemonSet).Status.CollisionCount, path)...)
}

func daemonSetWarnings(obj, old kinds.Object) []string {
	template := &obj.(*appsv1.DaemonSet).Spec.Template
	if old == nil {
		return warnTemplate(template, nil)
	}
	return warnTemplate(template, &old.(*appsv1.DaemonSet).Spec.Template)
}
