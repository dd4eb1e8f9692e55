package autoscaling

import (
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	pathvalidation "k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/validate"
)

// Bounds of scaling rules, in seconds.
const (
	maxStabilizationWindow = 3600
	maxPolicyPeriod        = 1800
)

// What the fields know, sorted as error texts show it.
var (
	selectPolicies = []autoscalingv2.ScalingPolicySelect{
		autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect}
	policyTypes = []autoscalingv2.HPAScalingPolicyType{autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy}
)

func validateHPA(obj kinds.Object) field.ErrorList {
	return validateHPASpec(&obj.(*autoscalingv2.HorizontalPodAutoscaler).Spec, 1, field.NewPath("spec"))
}

// validateHPAUpdate lets an autoscaler that scales to zero stay so, though the feature gate for that is off.
func validateHPAUpdate(obj, old kinds.Object) field.ErrorList {
	lowest := int32(1)
	if before := old.(*autoscalingv2.HorizontalPodAutoscaler).Spec.MinReplicas; before != nil && *before == 0 {
		lowest = 0
	}
	return validateHPASpec(&obj.(*autoscalingv2.HorizontalPodAutoscaler).Spec, lowest, field.NewPath("spec"))
}

func validateHPASpec(spec *autoscalingv2.HorizontalPodAutoscalerSpec, lowest int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if low := spec.MinReplicas; low != nil && *low < lowest {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), *low, fmt.Sprintf("must be greater than or equal to %d", lowest)))
	}
	at := path.Child("maxReplicas")
	if spec.MaxReplicas < 1 {
		errs = append(errs, field.Invalid(at, spec.MaxReplicas, "must be greater than 0"))
	}
	if spec.MinReplicas != nil && spec.MaxReplicas < *spec.MinReplicas {
		errs = append(errs, field.Invalid(at, spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, validateReference(&spec.ScaleTargetRef, path.Child("scaleTargetRef"))...)
	at = path.Child("metrics")
	outside := false // is there a metric that exists without pods?
	for i := range spec.Metrics {
		m := &spec.Metrics[i]
		errs = append(errs, validateMetric(m, at.Index(i))...)
		outside = outside || m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	}
	if spec.MinReplicas != nil && *spec.MinReplicas == 0 && !outside {
		errs = append(errs, field.Forbidden(at, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	if b := spec.Behavior; b != nil {
		errs = append(errs, validateRules(b.ScaleUp, path.Child("behavior", "scaleUp"))...)
		errs = append(errs, validateRules(b.ScaleDown, path.Child("behavior", "scaleDown"))...)
	}
	return errs
}

func validateReference(ref *autoscalingv2.CrossVersionObjectReference, path *field.Path) field.ErrorList {
	errs := requiredSegment(ref.Kind, "", path.Child("kind"))
	errs = append(errs, requiredSegment(ref.Name, "", path.Child("name"))...)
	return append(errs, validateAPIVersion(ref.APIVersion, path.Child("apiVersion"))...)
}

// requiredSegment wants a name that can stand between two slashes of a URL.
func requiredSegment(name, missing string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, missing)}
	}
	return validate.Each(name, path, pathvalidation.IsValidPathSegmentName)
}

func validateRules(rules *autoscalingv2.HPAScalingRules, path *field.Path) field.ErrorList {
	if rules == nil {
		return nil
	}
	var errs field.ErrorList
	if window := rules.StabilizationWindowSeconds; window != nil {
		at := path.Child("stabilizationWindowSeconds")
		if *window < 0 {
			errs = append(errs, field.Invalid(at, *window, "must be greater than or equal to zero"))
		}
		if *window > maxStabilizationWindow {
			errs = append(errs, field.Invalid(at, *window, fmt.Sprintf("must be less than or equal to %d", maxStabilizationWindow)))
		}
	}
	if s := rules.SelectPolicy; s != nil && !slices.Contains(selectPolicies, *s) {
		errs = append(errs, field.NotSupported(path.Child("selectPolicy"), *s, selectPolicies))
	}
	at := path.Child("policies")
	if len(rules.Policies) == 0 {
		errs = append(errs, field.Required(at, "must specify at least one Policy"))
	}
	for i := range rules.Policies {
		errs = append(errs, validatePolicy(&rules.Policies[i], at.Index(i))...)
	}
	if rules.Tolerance != nil && rules.Tolerance.Sign() < 0 {
		errs = append(errs, field.Invalid(path.Child("tolerance"), rules.Tolerance, "must be greater or equal to 0"))
	}
	return errs
}

func validatePolicy(policy *autoscalingv2.HPAScalingPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !slices.Contains(policyTypes, policy.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), policy.Type, policyTypes))
	}
	if policy.Value <= 0 {
		errs = append(errs, field.Invalid(path.Child("value"), policy.Value, "must be greater than zero"))
	}
	if policy.PeriodSeconds <= 0 {
		errs = append(errs, field.Invalid(path.Child("periodSeconds"), policy.PeriodSeconds, "must be greater than zero"))
	}
	if policy.PeriodSeconds > maxPolicyPeriod {
		errs = append(errs, field.Invalid(path.Child("periodSeconds"), policy.PeriodSeconds, fmt.Sprintf("must be less than or equal to %d", maxPolicyPeriod)))
	}
	return errs
}

func validateHPAStatusUpdate(obj, _ kinds.Object) field.ErrorList {
	path := field.NewPath("status")
	s := &obj.(*autoscalingv2.HorizontalPodAutoscaler).Status
	errs := validate.NonNegative(int64(s.CurrentReplicas), path.Child("currentReplicas"))
	return append(errs, validate.NonNegative(int64(s.DesiredReplicas), path.Child("desiredReplicas"))...)
}

// validateAPIVersion wants nothing, a version, or a group and a version.
func validateAPIVersion(text string, path *field.Path) field.ErrorList {
	if _, err := schema.ParseGroupVersion(text); err != nil {
		return field.ErrorList{field.Invalid(path, text, err.Error())}
	}
	return nil
}
