package autoscaling

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

// metricTypes are the known sources of metrics, sorted as error texts show them.
var metricTypes = []autoscalingv2.MetricSourceType{
	autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType,
	autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType}

// source is one of the fields of a metric that say where it comes from.
type source struct {
	field string
	of    autoscalingv2.MetricSourceType
	there bool
	check func(path *field.Path) field.ErrorList
}

func sourcesOf(m *autoscalingv2.MetricSpec) []source {
	return []source{
		{"object", autoscalingv2.ObjectMetricSourceType, m.Object != nil, func(at *field.Path) field.ErrorList { return validateObjectMetric(m.Object, at) }},
		{"external", autoscalingv2.ExternalMetricSourceType, m.External != nil, func(at *field.Path) field.ErrorList { return validateExternalMetric(m.External, at) }},
		{"pods", autoscalingv2.PodsMetricSourceType, m.Pods != nil, func(at *field.Path) field.ErrorList { return validatePodsMetric(m.Pods, at) }},
		{"resource", autoscalingv2.ResourceMetricSourceType, m.Resource != nil, func(at *field.Path) field.ErrorList { return validateResourceMetric(m.Resource, at) }},
		{"containerResource", autoscalingv2.ContainerResourceMetricSourceType, m.ContainerResource != nil, func(at *field.Path) field.ErrorList {
			return validateContainerMetric(m.ContainerResource, at)
		}},
	}
}

// validateMetric wants the one source that the type names. The first source that is there is checked, even when it is
// the wrong one.
func validateMetric(m *autoscalingv2.MetricSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("type")
	if m.Type == "" {
		errs = append(errs, field.Required(at, "must specify a metric source type"))
	}
	known := slices.Contains(metricTypes, m.Type)
	if !known {
		errs = append(errs, field.NotSupported(at, m.Type, metricTypes))
	}
	count := 0
	for _, s := range sourcesOf(m) {
		if s.there {
			if count++; count == 1 {
				errs = append(errs, s.check(path.Child(s.field))...)
			}
		}
	}
	for _, s := range sourcesOf(m) {
		if s.of == m.Type && !s.there {
			errs = append(errs, field.Required(path.Child(s.field), "must populate information for the given metric source"))
		}
	}
	if !known {
		errs = append(errs, field.NotSupported(at, m.Type, metricTypes)) // twice, as upstream does; clients see it once
	}
	if count > 1 {
		for _, s := range sourcesOf(m) {
			if s.there && s.of != m.Type {
				errs = append(errs, field.Forbidden(path.Child(s.field), "must populate the given metric source only"))
			}
		}
	}
	return errs
}

func validateObjectMetric(s *autoscalingv2.ObjectMetricSource, path *field.Path) field.ErrorList {
	errs := validateReference(&s.DescribedObject, path.Child("describedObject"))
	errs = append(errs, validateIdentifier(&s.Metric, path.Child("metric"))...)
	target := path.Child("target")
	errs = append(errs, validateTarget(&s.Target, target)...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(target.Child("averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

func validateExternalMetric(s *autoscalingv2.ExternalMetricSource, path *field.Path) field.ErrorList {
	errs := validateIdentifier(&s.Metric, path.Child("metric"))
	target := path.Child("target")
	errs = append(errs, validateTarget(&s.Target, target)...)
	switch {
	case s.Target.Value == nil && s.Target.AverageValue == nil:
		errs = append(errs, field.Required(target.Child("averageValue"), "must set either a target value for metric or a per-pod target"))
	case s.Target.Value != nil && s.Target.AverageValue != nil:
		errs = append(errs, field.Forbidden(target.Child("value"), "may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func validatePodsMetric(s *autoscalingv2.PodsMetricSource, path *field.Path) field.ErrorList {
	errs := validateIdentifier(&s.Metric, path.Child("metric"))
	target := path.Child("target")
	errs = append(errs, validateTarget(&s.Target, target)...)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(target.Child("averageValue"), "must specify a positive target averageValue"))
	}
	return errs
}

func validateResourceMetric(s *autoscalingv2.ResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	}
	return append(errs, validateResourceTarget(&s.Target, path.Child("target"))...)
}

func validateContainerMetric(s *autoscalingv2.ContainerResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	} else {
		errs = append(errs, podspec.ContainerResourceName(s.Name, path.Child("name"))...)
	}
	if s.Container == "" {
		errs = append(errs, field.Required(path.Child("container"), "must specify a container"))
	} else {
		errs = append(errs, validate.Each(s.Container, path.Child("container"), validation.IsDNS1123Label)...)
	}
	return append(errs, validateResourceTarget(&s.Target, path.Child("target"))...)
}

func validateResourceTarget(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	errs := validateTarget(t, path)
	switch {
	case t.AverageUtilization == nil && t.AverageValue == nil:
		errs = append(errs, field.Required(path.Child("averageUtilization"), "must set either a target raw value or a target utilization"))
	case t.AverageUtilization != nil && t.AverageValue != nil:
		errs = append(errs, field.Forbidden(path.Child("averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

func validateTarget(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric target type"))
	}
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		errs = append(errs, field.Invalid(path.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("averageValue"), t.AverageValue, "must be positive"))
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		errs = append(errs, field.Invalid(path.Child("averageUtilization"), t.AverageUtilization, "must be greater than 0"))
	}
	return errs
}

func validateIdentifier(id *autoscalingv2.MetricIdentifier, path *field.Path) field.ErrorList {
	return requiredSegment(id.Name, "must specify a metric name", path.Child("name"))
}
