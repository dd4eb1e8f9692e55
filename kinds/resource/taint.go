package resource

import (
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

var taintEffects = []resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone}

// addTime writes into a new taint when it was added. It is no default: those do not depend on the time.
func addTime(t *resourcev1.DeviceTaint) {
	if t.TimeAdded == nil {
		t.TimeAdded = now()
	}
}

// now is the time as it survives being stored.
func now() *metav1.Time { return &metav1.Time{Time: time.Now().Truncate(time.Second)} }

// validateTaint checks a taint. An effect that was there before passes.
func validateTaint(t, old *resourcev1.DeviceTaint, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelName(t.Key, path.Child("key"))
	if t.Value != "" {
		errs = append(errs, validate.Each(t.Value, path.Child("value"), validation.IsValidLabelValue)...)
	}
	if old == nil || old.Effect != t.Effect {
		errs = append(errs, validate.OneOf(t.Effect, path.Child("effect"), taintEffects...)...)
	}
	return errs
}

func validateTolerations(list []resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	return each(list, unlimited, path, validateToleration)
}

func validateToleration(t *resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, validate.Each(t.Value, path.Child("value"), validation.IsValidLabelValue)...)
	default:
		errs = append(errs, validate.OneOf(t.Operator, path.Child("operator"), resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists)...)
	}
	return append(errs, validate.OneOfOrEmpty(t.Effect, path.Child("effect"), taintEffects...)...)
}
