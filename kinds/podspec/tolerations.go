package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// TaintEffects are the effects of taints and tolerations, in the order in which errors list them.
var TaintEffects = []corev1.TaintEffect{
	corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
}

// ValidateTolerations checks tolerations. As upstream, errors about values name the operator.
func ValidateTolerations(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range tolerations {
		at := path.Index(i)
		if t.Key != "" {
			errs = append(errs, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(at.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		errs = append(errs, validateTolerationValue(&t, at.Child("operator"))...)
		errs = append(errs, validate.OneOfOrEmpty(t.Effect, at.Child("effect"), TaintEffects...)...)
	}
	return errs
}

func validateTolerationValue(t *corev1.Toleration, path *field.Path) field.ErrorList {
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if texts := validation.IsValidLabelValue(t.Value); len(texts) > 0 {
			return field.ErrorList{field.Invalid(path, t.Value, strings.Join(texts, ";"))}
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			return field.ErrorList{field.Invalid(path, t.Value, "value must be empty when `operator` is 'Exists'")}
		}
	default: // Lt and Gt belong to TaintTolerationComparisonOperators, which is off in Kubernetes 1.37
		return field.ErrorList{field.NotSupported(path, t.Operator, []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists})}
	}
	return nil
}
