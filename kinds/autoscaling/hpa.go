package autoscaling

import (
	"fmt"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// HorizontalPodAutoscaler is the row of autoscalers in their stored version, v2.
func HorizontalPodAutoscaler() *kinds.Kind {
	spec, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(), autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:        autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		Resource:   "horizontalpodautoscalers",
		Singular:   "horizontalpodautoscaler",
		ShortNames: []string{"hpa"},
		Categories: []string{"all"},
		Namespaced: true,
		Path:       "horizontalpodautoscalers",
		Type: &object.Type{
			APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Namespaced: true,
			New: func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscaler{} },
		},

		New:     func() kinds.Object { return &autoscalingv2.HorizontalPodAutoscaler{} },
		NewList: func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscalerList{} },

		Default: defaultHPA,
		PrepareCreate: func(obj kinds.Object) {
			hpa := obj.(*autoscalingv2.HorizontalPodAutoscaler)
			hpa.Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*autoscalingv2.HorizontalPodAutoscaler).Status = old.(*autoscalingv2.HorizontalPodAutoscaler).Status
		},
		Validate:       validateHPA,
		ValidateUpdate: validateHPAUpdate,

		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Reference", spec["scaleTargetRef"]),
			column.Text("Targets", spec["metrics"]),
			column.Text("MinPods", spec["minReplicas"]),
			column.Integer("MaxPods", spec["maxReplicas"]),
			column.Integer("Replicas", status["currentReplicas"]),
			column.Age(),
		},
		Row: hpaRow,

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*autoscalingv2.HorizontalPodAutoscaler).Spec = old.(*autoscalingv2.HorizontalPodAutoscaler).Spec
			},
			Validate: validateHPAStatusUpdate,
		}},
	}
}

// defaultCPU is the utilization in percent that is aimed at when no metric is given.
const defaultCPU = 80

func defaultHPA(obj kinds.Object) {
	spec := &obj.(*autoscalingv2.HorizontalPodAutoscaler).Spec
	setIfNil(&spec.MinReplicas, 1)
	if len(spec.Metrics) == 0 {
		spec.Metrics = []autoscalingv2.MetricSpec{cpuMetric(defaultCPU)}
	}
	if b := spec.Behavior; b != nil {
		b.ScaleUp = defaultRules(b.ScaleUp, autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: new(int32),
			Policies: []autoscalingv2.HPAScalingPolicy{
				{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
				{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
			},
		})
		b.ScaleDown = defaultRules(b.ScaleDown, autoscalingv2.HPAScalingRules{ // the window is the controller's to choose
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}},
		})
	}
}

// defaultRules fills in what rules, which may be nil, leave open; fallback is the caller's to give away.
func defaultRules(rules *autoscalingv2.HPAScalingRules, fallback autoscalingv2.HPAScalingRules) *autoscalingv2.HPAScalingRules {
	if rules == nil {
		rules = &autoscalingv2.HPAScalingRules{}
	}
	setIfNil(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if rules.StabilizationWindowSeconds == nil {
		rules.StabilizationWindowSeconds = fallback.StabilizationWindowSeconds
	}
	if rules.Policies == nil {
		rules.Policies = fallback.Policies
	}
	return rules
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func cpuMetric(utilization int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
		},
	}
}

func hpaRow(obj kinds.Object, now time.Time) []any {
	hpa := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	low := column.Unset
	if hpa.Spec.MinReplicas != nil {
		low = fmt.Sprint(*hpa.Spec.MinReplicas)
	}
	return []any{
		hpa.Name,
		hpa.Spec.ScaleTargetRef.Kind + "/" + hpa.Spec.ScaleTargetRef.Name,
		targetsText(hpa.Spec.Metrics, hpa.Status.CurrentMetrics),
		low,
		int64(hpa.Spec.MaxReplicas),
		int64(hpa.Status.CurrentReplicas),
		column.Since(hpa.CreationTimestamp, now),
	}
}

// targetsText shows the first two metrics, each as "current/wanted".
func targetsText(specs []autoscalingv2.MetricSpec, statuses []autoscalingv2.MetricStatus) string {
	const shown = 2
	if len(specs) == 0 {
		return column.None
	}
	var texts []string
	for i := range specs[:min(len(specs), shown)] {
		var status autoscalingv2.MetricStatus
		if i < len(statuses) {
			status = statuses[i]
		}
		texts = append(texts, targetText(&specs[i], &status))
	}
	out := strings.Join(texts, ", ")
	if more := len(specs) - shown; more > 0 {
		out += fmt.Sprintf(" + %d more...", more)
	}
	return out
}

func targetText(spec *autoscalingv2.MetricSpec, status *autoscalingv2.MetricStatus) string {
	var now *autoscalingv2.MetricValueStatus
	switch {
	case spec.Type == autoscalingv2.ExternalMetricSourceType && spec.External != nil:
		if status.External != nil {
			now = &status.External.Current
		}
		return valueText(&spec.External.Target, now, true)
	case spec.Type == autoscalingv2.ObjectMetricSourceType && spec.Object != nil:
		if status.Object != nil {
			now = &status.Object.Current
		}
		return valueText(&spec.Object.Target, now, true)
	case spec.Type == autoscalingv2.PodsMetricSourceType && spec.Pods != nil:
		if status.Pods != nil {
			now = &status.Pods.Current
		}
		return valueText(&spec.Pods.Target, now, false)
	case spec.Type == autoscalingv2.ResourceMetricSourceType && spec.Resource != nil:
		if status.Resource != nil {
			now = &status.Resource.Current
		}
		return resourceText(spec.Resource.Name, &spec.Resource.Target, now)
	case spec.Type == autoscalingv2.ContainerResourceMetricSourceType && spec.ContainerResource != nil:
		if status.ContainerResource != nil {
			now = &status.ContainerResource.Current
		}
		return resourceText(spec.ContainerResource.Name, &spec.ContainerResource.Target, now)
	default:
		return "<unknown type>"
	}
}

// valueText shows an average where one is wanted, marked as such when it might be a total as well.
func valueText(target *autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus, mark bool) string {
	current := column.Unknown
	if target.AverageValue != nil {
		if now != nil && now.AverageValue != nil {
			current = now.AverageValue.String()
		}
		text := current + "/" + target.AverageValue.String()
		if mark {
			text += " (avg)"
		}
		return text
	}
	if now != nil {
		current = now.Value.String()
	}
	return current + "/" + target.Value.String()
}

func resourceText(name corev1.ResourceName, target *autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	current, wanted := column.Unknown, "<auto>"
	switch {
	case target.AverageValue != nil:
		if now != nil {
			current = now.AverageValue.String()
		}
		wanted = target.AverageValue.String()
	default:
		if now != nil && now.AverageUtilization != nil {
			current = fmt.Sprintf("%d%%", *now.AverageUtilization)
		}
		if target.AverageUtilization != nil {
			wanted = fmt.Sprintf("%d%%", *target.AverageUtilization)
		}
	}
	return fmt.Sprintf("%s: %s/%s", name, current, wanted)
}
