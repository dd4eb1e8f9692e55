package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/validate"
)

// zero stands for a bound that is not given; defaults leave none out.
var zero = intstr.FromInt32(0)

func validateDeployment(obj kinds.Object) field.ErrorList {
	return validateDeploymentSpec(&obj.(*appsv1.Deployment).Spec, nil, field.NewPath("spec"))
}

func validateDeploymentUpdate(obj, old kinds.Object) field.ErrorList {
	d, oldD, path := obj.(*appsv1.Deployment), old.(*appsv1.Deployment), field.NewPath("spec")
	errs := validateDeploymentSpec(&d.Spec, &oldD.Spec.Template, path)
	return append(errs, validate.Immutable(d.Spec.Selector, oldD.Spec.Selector, path.Child("selector"))...)
}

func validateDeploymentSpec(spec *appsv1.DeploymentSpec, oldTemplate *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := validate.NonNegativePtr(spec.Replicas, path.Child("replicas"))
	errs = append(errs, validateSelector(spec.Selector, "deployment", path.Child("selector"))...)
	errs = append(errs, validateLongRunning(&spec.Template, spec.Selector, "ReplicaSet", path.Child("template"), path.Child("selector"), oldTemplate)...)
	errs = append(errs, validateDeploymentStrategy(&spec.Strategy, path.Child("strategy"))...)
	errs = append(errs, validate.NonNegative(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	errs = append(errs, validate.NonNegativePtr(spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
	if deadline := spec.ProgressDeadlineSeconds; deadline != nil {
		at := path.Child("progressDeadlineSeconds")
		errs = append(errs, validate.NonNegative(int64(*deadline), at)...)
		if *deadline <= spec.MinReadySeconds {
			errs = append(errs, field.Invalid(at, *deadline, "must be greater than minReadySeconds"))
		}
	}
	return errs
}

func validateDeploymentStrategy(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	at := path.Child("rollingUpdate")
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(at, "may not be specified when strategy `type` is 'Recreate'")}
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(at, "this should be defaulted and never be nil")}
		}
		return validateRollingUpdate(s.RollingUpdate, at)
	default:
		return field.ErrorList{field.NotSupported(path, s.Type, []appsv1.DeploymentStrategyType{
			appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType})}
	}
	return nil
}

// validateRollingUpdate wants one of the two bounds to leave room: with both at zero no pod could be replaced.
func validateRollingUpdate(r *appsv1.RollingUpdateDeployment, path *field.Path) field.ErrorList {
	unavailable, surge := ptr.Deref(r.MaxUnavailable, zero), ptr.Deref(r.MaxSurge, zero)
	at := path.Child("maxUnavailable")
	errs := validate.IntOrPercent(unavailable, at)
	errs = append(errs, validate.IntOrPercent(surge, path.Child("maxSurge"))...)
	if validate.IntOrPercentValue(unavailable) == 0 && validate.IntOrPercentValue(surge) == 0 {
		errs = append(errs, field.Invalid(at, unavailable, "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, validate.NotOver100Percent(unavailable, at)...)
}

func validateDeploymentStatusUpdate(obj, old kinds.Object) field.ErrorList {
	path := field.NewPath("status")
	s, before := &obj.(*appsv1.Deployment).Status, &old.(*appsv1.Deployment).Status
	errs := validateCounters(path,
		counter{"observedGeneration", s.ObservedGeneration},
		counter{"replicas", int64(s.Replicas)},
		counter{"updatedReplicas", int64(s.UpdatedReplicas)},
		counter{"readyReplicas", int64(s.ReadyReplicas)},
		counter{"availableReplicas", int64(s.AvailableReplicas)},
		counter{"unavailableReplicas", int64(s.UnavailableReplicas)},
		counter{"terminatingReplicas", int64(ptr.Deref(s.TerminatingReplicas, 0))},
		counter{"collisionCount", int64(ptr.Deref(s.CollisionCount, 0))})
	errs = append(errs, validateNotAbove(path, s.Replicas, "status.replicas",
		counter{"updatedReplicas", int64(s.UpdatedReplicas)},
		counter{"readyReplicas", int64(s.ReadyReplicas)},
		counter{"availableReplicas", int64(s.AvailableReplicas)})...)
	errs = append(errs, validateNotAbove(path, s.ReadyReplicas, "readyReplicas",
		counter{"availableReplicas", int64(s.AvailableReplicas)})...)
	return append(errs, validateCollisions(s.CollisionCount, before.CollisionCount, path)...)
}

func deploymentWarnings(obj, old kinds.Object) []string {
	d := obj.(*appsv1.Deployment)
	if old == nil {
		return warnWorkload(d.Name, &d.Spec.Template, nil)
	}
	return warnWorkload(d.Name, &d.Spec.Template, &old.(*appsv1.Deployment).Spec.Template)
}
