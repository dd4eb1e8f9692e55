package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/validate"
)

func validateReplicaSet(obj kinds.Object) field.ErrorList {
	return validateReplicaSetSpec(&obj.(*appsv1.ReplicaSet).Spec, nil, field.NewPath("spec"))
}

func validateReplicaSetUpdate(obj, old kinds.Object) field.ErrorList {
	rs, oldRS, path := obj.(*appsv1.ReplicaSet), old.(*appsv1.ReplicaSet), field.NewPath("spec")
	errs := validateReplicaSetSpec(&rs.Spec, &oldRS.Spec.Template, path)
	return append(errs, validate.Immutable(rs.Spec.Selector, oldRS.Spec.Selector, path.Child("selector"))...)
}

func validateReplicaSetSpec(spec *appsv1.ReplicaSetSpec, oldTemplate *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := validate.NonNegativePtr(spec.Replicas, path.Child("replicas"))
	errs = append(errs, validate.NonNegative(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	errs = append(errs, validateSelector(spec.Selector, "deployment", path.Child("selector"))...) // upstream's word here, too
	return append(errs, validateLongRunning(&spec.Template, spec.Selector, "ReplicaSet", path.Child("template"), path.Child("selector"), oldTemplate)...)
}

func validateReplicaSetStatusUpdate(obj, _ kinds.Object) field.ErrorList {
	path := field.NewPath("status")
	s := &obj.(*appsv1.ReplicaSet).Status
	errs := validateCounters(path,
		counter{"replicas", int64(s.Replicas)},
		counter{"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)},
		counter{"readyReplicas", int64(s.ReadyReplicas)},
		counter{"availableReplicas", int64(s.AvailableReplicas)},
		counter{"observedGeneration", s.ObservedGeneration},
		counter{"terminatingReplicas", int64(ptr.Deref(s.TerminatingReplicas, 0))})
	errs = append(errs, validateNotAbove(path, s.Replicas, "status.replicas",
		counter{"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)},
		counter{"readyReplicas", int64(s.ReadyReplicas)},
		counter{"availableReplicas", int64(s.AvailableReplicas)})...)
	return append(errs, validateNotAbove(path, s.ReadyReplicas, "readyReplicas",
		counter{"availableReplicas", int64(s.AvailableReplicas)})...)
}

func replicaSetWarnings(obj, old kinds.Object) []string {
	rs := obj.(*appsv1.ReplicaSet)
	if old == nil {
		return warnWorkload(rs.Name, &rs.Spec.Template, nil)
	}
	return warnWorkload(rs.Name, &rs.Spec.Template, &old.(*appsv1.ReplicaSet).Spec.Template)
}
