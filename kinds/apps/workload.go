package apps

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

// validateSelector checks the selector of a workload: it must be there and select something. The error on an empty one
// names the kind: "empty selector is invalid for deployment".
func validateSelector(selector *metav1.LabelSelector, kind string, path *field.Path) field.ErrorList {
	if selector == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	errs := validate.LabelSelector(selector, path)
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(path, selector, "empty selector is invalid for "+kind))
	}
	return errs
}

// validateLongRunning checks the template of a workload whose pods run for ever: the selector finds them and they are
// always restarted. The error on a deadline names the kind.
func validateLongRunning(
	template *corev1.PodTemplateSpec, selector *metav1.LabelSelector, kind string,
	path, selectorPath *field.Path, old *corev1.PodTemplateSpec,
) field.ErrorList {
	var errs field.ErrorList
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return field.ErrorList{field.Invalid(selectorPath, selector, "invalid label selector")}
	}
	if !s.Empty() && !s.Matches(labels.Set(template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	var opts podspec.Options
	if old != nil {
		opts.Old, opts.OldAnnotations = &old.Spec, old.Annotations
	}
	errs = append(errs, podspec.ValidateTemplate(template, path, opts)...)
	if template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), template.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in "+kind+" is not Supported"))
	}
	return errs
}

// counter is a number in a workload's status.
type counter struct {
	name  string
	value int64
}

// validateCounters rejects negative counters.
func validateCounters(path *field.Path, counters ...counter) field.ErrorList {
	var errs field.ErrorList
	for _, c := range counters {
		errs = append(errs, validate.NonNegative(c.value, path.Child(c.name))...)
	}
	return errs
}

// validateNotAbove rejects counters that are greater than limit, whose name ends the error.
func validateNotAbove(path *field.Path, limit int32, limitName string, counters ...counter) field.ErrorList {
	var errs field.ErrorList
	for _, c := range counters {
		if c.value > int64(limit) {
			errs = append(errs, field.Invalid(path.Child(c.name), c.value, "cannot be greater than "+limitName))
		}
	}
	return errs
}

// validateCollisions rejects a collision count that goes back, which would make names of revisions clash again.
func validateCollisions(count, before *int32, path *field.Path) field.ErrorList {
	if before == nil || count != nil && *count >= *before {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("collisionCount"), ptr.Deref(count, 0), "cannot be decremented")}
}

// warnWorkload returns the warnings of a workload's template (see warnTemplate), and on create (old is nil) that of a
// name which no host can have.
func warnWorkload(name string, template, old *corev1.PodTemplateSpec) []string {
	var warnings []string
	if old == nil {
		if texts := apivalidation.NameIsDNSLabel(name, false); len(texts) > 0 {
			warnings = append(warnings, fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, "+
				"which can result in surprising behavior; a DNS label is recommended: %v", texts))
		}
	}
	return append(warnings, warnTemplate(template, old)...)
}

// warnTemplate returns the warnings of a template where they are of use: on create (old is nil) and when it changed.
func warnTemplate(template, old *corev1.PodTemplateSpec) []string {
	if old != nil && equality.Semantic.DeepEqual(template, old) {
		return nil
	}
	return podspec.WarningsForTemplate(template, field.NewPath("spec", "template"))
}
