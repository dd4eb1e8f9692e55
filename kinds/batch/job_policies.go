package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

// Bounds of the policies.
const (
	maxPolicyRules          = 20 // of a failure policy and of a success policy
	maxExitCodes            = 255
	maxConditionPatterns    = 20
	maxSucceededIndexesSize = 64 * 1024 // bytes
)

// What the policies know, sorted as error texts show it.
var (
	failureActions = []batchv1.PodFailurePolicyAction{
		batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore}
	exitCodeOperators = []batchv1.PodFailurePolicyOnExitCodesOperator{
		batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn}
	conditionStatuses = []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
)

// oneOf is validate.OneOf with an error on the empty value that lists what is known.
func oneOf[T ~string](value T, path *field.Path, known []T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q", known))}
	case !slices.Contains(known, value):
		return field.ErrorList{field.NotSupported(path, value, known)}
	}
	return nil
}

// validateFailurePolicy checks what is to be done about pods that fail (KEP-3329).
func validateFailurePolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	rules := spec.PodFailurePolicy.Rules
	path = path.Child("rules")
	var errs field.ErrorList
	if len(rules) > maxPolicyRules {
		errs = append(errs, field.TooMany(path, len(rules), maxPolicyRules))
	}
	containers := sets.New[string]()
	podspec.VisitContainers(&spec.Template.Spec, nil, func(c *corev1.Container, _ *field.Path) { containers.Insert(c.Name) })
	for i := range rules {
		rule, at := &rules[i], path.Index(i)
		if rule.Action == batchv1.PodFailurePolicyActionFailIndex && spec.BackoffLimitPerIndex == nil {
			errs = append(errs, field.Invalid(at.Child("action"), rule.Action, "requires the backoffLimitPerIndex to be set"))
		}
		errs = append(errs, oneOf(rule.Action, at.Child("action"), failureActions)...)
		if rule.OnExitCodes != nil {
			errs = append(errs, validateExitCodes(rule.OnExitCodes, containers, at.Child("onExitCodes"))...)
		}
		errs = append(errs, validateConditionPatterns(rule.OnPodConditions, at.Child("onPodConditions"))...)
		switch codes, conditions := rule.OnExitCodes != nil, len(rule.OnPodConditions) > 0; {
		case codes && conditions:
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
		case !codes && !conditions:
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
		}
	}
	return errs
}

func validateConditionPatterns(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(patterns) > maxConditionPatterns {
		errs = append(errs, field.TooMany(path, len(patterns), maxConditionPatterns))
	}
	for i, pattern := range patterns {
		at := path.Index(i)
		errs = append(errs, validate.QualifiedName(string(pattern.Type), at.Child("type"))...)
		errs = append(errs, oneOf(pattern.Status, at.Child("status"), conditionStatuses)...)
	}
	return errs
}

func validateExitCodes(codes *batchv1.PodFailurePolicyOnExitCodesRequirement, containers sets.Set[string], path *field.Path) field.ErrorList {
	errs := oneOf(codes.Operator, path.Child("operator"), exitCodeOperators)
	if name := codes.ContainerName; name != nil && !containers.Has(*name) {
		errs = append(errs, field.Invalid(path.Child("containerName"), *name, "must be one of the container or initContainer names in the pod template"))
	}
	at := path.Child("values")
	if len(codes.Values) == 0 {
		errs = append(errs, field.Invalid(at, codes.Values, "at least one value is required"))
	} else if len(codes.Values) > maxExitCodes {
		errs = append(errs, field.TooMany(at, len(codes.Values), maxExitCodes))
	}
	seen := sets.New[int32]()
	for i, code := range codes.Values {
		if code == 0 && codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			errs = append(errs, field.Invalid(at.Index(i), code, "must not be 0 for the In operator"))
		}
		if seen.Has(code) {
			errs = append(errs, field.Duplicate(at.Index(i), code))
		}
		seen.Insert(code)
	}
	if !slices.IsSorted(codes.Values) {
		errs = append(errs, field.Invalid(at, codes.Values, "must be ordered"))
	}
	return errs
}

// validateSuccessPolicy checks when an Indexed job is done before all of its indexes are (KEP-3998).
func validateSuccessPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	rules := spec.SuccessPolicy.Rules
	path = path.Child("rules")
	var errs field.ErrorList
	if len(rules) == 0 {
		errs = append(errs, field.Required(path, "at least one rules must be specified when the successPolicy is specified"))
	}
	if len(rules) > maxPolicyRules {
		errs = append(errs, field.TooMany(path, len(rules), maxPolicyRules))
	}
	for i := range rules {
		errs = append(errs, validateSuccessRule(&rules[i], ptr.Deref(spec.Completions, 0), path.Index(i))...)
	}
	return errs
}

func validateSuccessRule(rule *batchv1.SuccessPolicyRule, completions int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if rule.SucceededCount == nil && rule.SucceededIndexes == nil {
		return field.ErrorList{field.Required(path, "at least one of succeededCount or succeededIndexes must be specified")}
	}
	var listed int32
	if rule.SucceededIndexes != nil {
		at := path.Child("succeededIndexes")
		if len(*rule.SucceededIndexes) > maxSucceededIndexesSize {
			errs = append(errs, field.TooLong(at, *rule.SucceededIndexes, maxSucceededIndexesSize))
		}
		var err error
		if listed, err = countIndexes(*rule.SucceededIndexes, completions); err != nil {
			errs = append(errs, field.Invalid(at, *rule.SucceededIndexes, fmt.Sprintf("error parsing succeededIndexes: %v", err)))
		}
	}
	if rule.SucceededCount != nil {
		at, count := path.Child("succeededCount"), *rule.SucceededCount
		errs = append(errs, validate.NonNegative(int64(count), at)...)
		if count > completions {
			errs = append(errs, field.Invalid(at, count, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions)))
		}
		if rule.SucceededIndexes != nil && count > listed {
			errs = append(errs, field.Invalid(at, count, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", listed)))
		}
	}
	return errs
}

// specWarnings returns the warnings of a job's spec at path; old is nil on create.
func specWarnings(spec, old *batchv1.JobSpec, path *field.Path) []string {
	var warnings []string
	if isIndexed(spec) && ptr.Deref(spec.Completions, 0) > manyCompletions && ptr.Deref(spec.Parallelism, 0) > manyCompletionsParallelism {
		warnings = append(warnings, path.String()+": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "+
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	if old != nil && equality.Semantic.DeepEqual(spec.Template, old.Template) {
		return warnings
	}
	return append(warnings, podspec.WarningsForTemplate(&spec.Template, path.Child("template"))...)
}
