package autoscaling

import (
	"encoding/json"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds"
	"vigil/object"
)

// Annotations in which v1 carries what it has no fields for, as JSON: metrics and conditions in v1's own types, behavior
// with upper-case keys. Upstream's apis/autoscaling/annotations.go.
const (
	metricsAnnotation        = "autoscaling.alpha.kubernetes.io/metrics"
	currentMetricsAnnotation = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation     = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation       = "autoscaling.alpha.kubernetes.io/behavior"
)

// HorizontalPodAutoscalerV1 is the row of autoscalers in version v1, stored as v2.
func HorizontalPodAutoscalerV1() *kinds.Kind {
	return &kinds.Kind{
		GVK:        autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		Resource:   "horizontalpodautoscalers",
		Singular:   "horizontalpodautoscaler",
		ShortNames: []string{"hpa"},
		Categories: []string{"all"},
		Namespaced: true,
		Type: &object.Type{
			APIVersion: "autoscaling/v1", Kind: "HorizontalPodAutoscaler", Namespaced: true,
			New: func() runtime.Object { return &autoscalingv1.HorizontalPodAutoscaler{} },
		},
		New:     func() kinds.Object { return &autoscalingv1.HorizontalPodAutoscaler{} },
		NewList: func() runtime.Object { return &autoscalingv1.HorizontalPodAutoscalerList{} },
		// What has no metric at all gets one when it is converted: only then it is known that there is none.
		Default: func(obj kinds.Object) { setIfNil(&obj.(*autoscalingv1.HorizontalPodAutoscaler).Spec.MinReplicas, 1) },
		View: &kinds.View{
			Of: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
			FromStored: func(obj kinds.Object) (kinds.Object, error) {
				return toV1(obj.(*autoscalingv2.HorizontalPodAutoscaler))
			},
			ToStored: func(obj kinds.Object) (kinds.Object, error) {
				return fromV1(obj.(*autoscalingv1.HorizontalPodAutoscaler)), nil
			},
		},
	}
}

func toV1(in *autoscalingv2.HorizontalPodAutoscaler) (kinds.Object, error) {
	out := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas,
			MaxReplicas:    in.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration,
			LastScaleTime:      in.Status.LastScaleTime,
			CurrentReplicas:    in.Status.CurrentReplicas,
			DesiredReplicas:    in.Status.DesiredReplicas,
		},
	}
	out.Annotations = withoutOwn(in.Annotations)
	var metrics []autoscalingv1.MetricSpec
	for i := range in.Spec.Metrics {
		m := &in.Spec.Metrics[i]
		if isCPU(m) {
			if out.Spec.TargetCPUUtilizationPercentage == nil {
				out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
			}
			continue
		}
		metrics = append(metrics, metricToV1(m))
	}
	var current []autoscalingv1.MetricStatus
	for i := range in.Status.CurrentMetrics {
		m := &in.Status.CurrentMetrics[i]
		if m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
		current = append(current, statusToV1(m))
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	for _, c := range in.Status.Conditions {
		conditions = append(conditions, autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
		})
	}
	for _, part := range []struct {
		key   string
		there bool
		value any
	}{
		{metricsAnnotation, len(metrics) > 0, metrics},
		{currentMetricsAnnotation, len(current) > 0, current},
		{conditionsAnnotation, len(conditions) > 0, conditions},
		{behaviorAnnotation, in.Spec.Behavior != nil, upperBehavior(in.Spec.Behavior)},
	} {
		if !part.there {
			continue
		}
		text, err := json.Marshal(part.value)
		if err != nil {
			return nil, err
		}
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[part.key] = string(text)
	}
	return out, nil
}

// fromV1 reads the annotations back. One that cannot be read is dropped without a word, as upstream does.
func fromV1(in *autoscalingv1.HorizontalPodAutoscaler) kinds.Object {
	out := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas,
			MaxReplicas:    in.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration,
			LastScaleTime:      in.Status.LastScaleTime,
			CurrentReplicas:    in.Status.CurrentReplicas,
			DesiredReplicas:    in.Status.DesiredReplicas,
		},
	}
	out.Annotations = withoutOwn(in.Annotations)
	for _, m := range read[[]autoscalingv1.MetricSpec](in.Annotations, metricsAnnotation) {
		out.Spec.Metrics = append(out.Spec.Metrics, metricFromV1(&m))
	}
	switch cpu := in.Spec.TargetCPUUtilizationPercentage; {
	case cpu != nil:
		out.Spec.Metrics = append(out.Spec.Metrics, cpuMetric(*cpu))
	case len(out.Spec.Metrics) == 0:
		out.Spec.Metrics = []autoscalingv2.MetricSpec{cpuMetric(defaultCPU)}
	}
	// Keys are told apart without regard to case, so v2's type reads the upper-case ones.
	out.Spec.Behavior = read[*autoscalingv2.HorizontalPodAutoscalerBehavior](in.Annotations, behaviorAnnotation)
	for _, m := range read[[]autoscalingv1.MetricStatus](in.Annotations, currentMetricsAnnotation) {
		out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, statusFromV1(&m))
	}
	if cpu := in.Status.CurrentCPUUtilizationPercentage; cpu != nil && out.Status.CurrentMetrics == nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: cpu},
			},
		}}
	}
	out.Status.Conditions = read[[]autoscalingv2.HorizontalPodAutoscalerCondition](in.Annotations, conditionsAnnotation)
	return out
}

// isCPU says whether a metric is the one that v1 has a field for.
func isCPU(m *autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil &&
		m.Resource.Name == corev1.ResourceCPU && m.Resource.Target.AverageUtilization != nil
}

func read[T any](annotations map[string]string, key string) T {
	var value T
	if text, found := annotations[key]; found {
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			var zero T
			return zero
		}
	}
	return value
}

// withoutOwn returns the annotations but for those above: the same map when there are none.
func withoutOwn(annotations map[string]string) map[string]string {
	var out map[string]string
	for _, key := range []string{metricsAnnotation, currentMetricsAnnotation, conditionsAnnotation, behaviorAnnotation} {
		if _, found := annotations[key]; found && out == nil {
			out = maps.Clone(annotations)
		}
		delete(out, key)
	}
	if out != nil {
		return out
	}
	return maps.Clone(annotations)
}

// upperBehavior is behavior as the annotation has it: upstream writes a type without JSON names there.
func upperBehavior(b *autoscalingv2.HorizontalPodAutoscalerBehavior) any {
	if b == nil {
		return nil
	}
	type policy struct {
		Type          autoscalingv2.HPAScalingPolicyType
		Value         int32
		PeriodSeconds int32
	}
	type rules struct {
		StabilizationWindowSeconds *int32
		SelectPolicy               *autoscalingv2.ScalingPolicySelect
		Policies                   []policy
		Tolerance                  any
	}
	upper := func(in *autoscalingv2.HPAScalingRules) *rules {
		if in == nil {
			return nil
		}
		out := &rules{StabilizationWindowSeconds: in.StabilizationWindowSeconds, SelectPolicy: in.SelectPolicy}
		if in.Tolerance != nil {
			out.Tolerance = in.Tolerance
		}
		for _, p := range in.Policies {
			out.Policies = append(out.Policies, policy(p))
		}
		return out
	}
	return struct{ ScaleUp, ScaleDown *rules }{upper(b.ScaleUp), upper(b.ScaleDown)}
}
