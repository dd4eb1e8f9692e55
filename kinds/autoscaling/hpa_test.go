package autoscaling

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

type hpa = autoscalingv2.HorizontalPodAutoscaler

func good(edit func(*hpa)) *hpa {
	h := &hpa{
		ObjectMeta: metav1.ObjectMeta{Name: "h", Namespace: "ns"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MaxReplicas:    5,
		},
	}
	if edit != nil {
		edit(h)
	}
	defaultHPA(h)
	return h
}

func quantity(text string) *resource.Quantity { return kindtest.Ptr(resource.MustParse(text)) }

func TestHPA_Minimal(t *testing.T) {
	kindtest.Minimal(t, HorizontalPodAutoscaler(), `
metadata: {name: h, namespace: ns}
spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 5, behavior: {scaleDown: {stabilizationWindowSeconds: 60}}}`, `
metadata: {name: h, namespace: ns}
spec:
  scaleTargetRef: {kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 5
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
  behavior:
    scaleUp:
      stabilizationWindowSeconds: 0
      selectPolicy: Max
      policies: [{type: Pods, value: 4, periodSeconds: 15}, {type: Percent, value: 100, periodSeconds: 15}]
    scaleDown:
      stabilizationWindowSeconds: 60
      selectPolicy: Max
      policies: [{type: Percent, value: 100, periodSeconds: 15}]`)
}

func TestHPA_Create(t *testing.T) {
	c := func(name string, edit func(*hpa), want []string) kindtest.Case[hpa] {
		return kindtest.Case[hpa]{Name: name, Edit: edit, Want: want}
	}
	metrics := func(m ...autoscalingv2.MetricSpec) func(*hpa) { return func(h *hpa) { h.Spec.Metrics = m } }
	id := autoscalingv2.MetricIdentifier{Name: "m"}
	kindtest.Create(t, HorizontalPodAutoscaler(), good(nil),
		c("bounds", func(h *hpa) { h.Spec.MinReplicas, h.Spec.MaxReplicas = kindtest.Ptr[int32](0), -1 }, []string{
			`spec.minReplicas: Invalid value: 0: must be greater than or equal to 1`,
			`spec.maxReplicas: Invalid value: -1: must be greater than 0`,
			"spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
			`spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas`,
		}),
		c("no target", func(h *hpa) { h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{} }, []string{
			`spec.scaleTargetRef.kind: Required value`, `spec.scaleTargetRef.name: Required value`,
		}),
		c("bad target", func(h *hpa) {
			h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "a/b/c", Kind: "a/b", Name: ".."}
		}, []string{
			`spec.scaleTargetRef.kind: Invalid value: "a/b": may not contain '/'`,
			`spec.scaleTargetRef.name: Invalid value: "..": may not be '..'`,
			`spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`,
		}),
		c("behavior", func(h *hpa) {
			h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp: &autoscalingv2.HPAScalingRules{
					StabilizationWindowSeconds: kindtest.Ptr[int32](-1),
					SelectPolicy:               kindtest.Ptr[autoscalingv2.ScalingPolicySelect]("x"),
					Policies:                   []autoscalingv2.HPAScalingPolicy{},
					Tolerance:                  quantity("-1"),
				},
				ScaleDown: &autoscalingv2.HPAScalingRules{
					StabilizationWindowSeconds: kindtest.Ptr[int32](3601),
					Policies:                   []autoscalingv2.HPAScalingPolicy{{Type: "x"}, {Type: "Pods", Value: 1, PeriodSeconds: 1801}},
				},
			}
		}, []string{
			`spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero`,
			`spec.behavior.scaleUp.selectPolicy: Unsupported value: "x": supported values: "Disabled", "Max", "Min"`,
			`spec.behavior.scaleUp.policies: Required value: must specify at least one Policy`,
			`spec.behavior.scaleUp.tolerance: Invalid value: "-1": must be greater or equal to 0`,
			`spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600`,
			`spec.behavior.scaleDown.policies[0].type: Unsupported value: "x": supported values: "Percent", "Pods"`,
			`spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero`,
			`spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 0: must be greater than zero`,
			`spec.behavior.scaleDown.policies[1].periodSeconds: Invalid value: 1801: must be less than or equal to 1800`,
		}),
		c("metric without type", metrics(autoscalingv2.MetricSpec{}), []string{
			`spec.metrics[0].type: Required value: must specify a metric source type`,
			`spec.metrics[0].type: Unsupported value: "": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"`,
			`spec.metrics[0].type: Unsupported value: "": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"`,
		}),
		c("metric without source", metrics(autoscalingv2.MetricSpec{Type: "Pods"}),
			[]string{`spec.metrics[0].pods: Required value: must populate information for the given metric source`}),
		c("two sources", metrics(autoscalingv2.MetricSpec{
			Type: "Pods",
			Pods: &autoscalingv2.PodsMetricSource{Metric: id, Target: autoscalingv2.MetricTarget{Type: "AverageValue", AverageValue: quantity("1")}},
			External: &autoscalingv2.ExternalMetricSource{
				Target: autoscalingv2.MetricTarget{Type: "x", Value: quantity("0"), AverageValue: quantity("-1")}},
		}), []string{
			`spec.metrics[0].external.metric.name: Required value: must specify a metric name`,
			`spec.metrics[0].external.target.type: Invalid value: "x": must be either Utilization, Value, or AverageValue`,
			`spec.metrics[0].external.target.value: Invalid value: "0": must be positive`,
			`spec.metrics[0].external.target.averageValue: Invalid value: "-1": must be positive`,
			`spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod target`,
			`spec.metrics[0].external: Forbidden: must populate the given metric source only`,
		}),
		c("sources", metrics(
			autoscalingv2.MetricSpec{Type: "Object", Object: &autoscalingv2.ObjectMetricSource{
				DescribedObject: autoscalingv2.CrossVersionObjectReference{Kind: "Service", Name: "s"}, Metric: id, Target: autoscalingv2.MetricTarget{Type: "Value"}}},
			autoscalingv2.MetricSpec{Type: "External", External: &autoscalingv2.ExternalMetricSource{Metric: id, Target: autoscalingv2.MetricTarget{Type: "Value"}}},
			autoscalingv2.MetricSpec{Type: "Pods", Pods: &autoscalingv2.PodsMetricSource{Metric: id, Target: autoscalingv2.MetricTarget{Type: "Value"}}},
			autoscalingv2.MetricSpec{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Target: autoscalingv2.MetricTarget{
				Type: "Utilization", AverageUtilization: kindtest.Ptr[int32](0), AverageValue: quantity("1")}}},
			autoscalingv2.MetricSpec{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
				Name: "apples", Container: "A", Target: autoscalingv2.MetricTarget{Type: "Utilization"}}},
			autoscalingv2.MetricSpec{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Target: autoscalingv2.MetricTarget{Type: "Utilization", AverageUtilization: kindtest.Ptr[int32](1)}}},
		), []string{
			`spec.metrics[0].object.target.averageValue: Required value: must set either a target value or averageValue`,
			`spec.metrics[1].external.target.averageValue: Required value: must set either a target value for metric or a per-pod target`,
			`spec.metrics[2].pods.target.averageValue: Required value: must specify a positive target averageValue`,
			`spec.metrics[3].resource.name: Required value: must specify a resource name`,
			`spec.metrics[3].resource.target.averageUtilization: Invalid value: 0: must be greater than 0`,
			`spec.metrics[3].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization`,
			`spec.metrics[4].containerResource.name: Invalid value: "apples": must be a standard resource type or fully qualified`,
			`spec.metrics[4].containerResource.name: Invalid value: "apples": must be a standard resource for containers`,
			`spec.metrics[4].containerResource.container: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
			`spec.metrics[4].containerResource.target.averageUtilization: Required value: must set either a target raw value or a target utilization`,
			`spec.metrics[5].containerResource.name: Required value: must specify a resource name`,
			`spec.metrics[5].containerResource.container: Required value: must specify a container`,
		}),
	)
}

func TestHPA_Update(t *testing.T) {
	c := func(name string, edit func(*hpa), want []string) kindtest.Case[hpa] {
		return kindtest.Case[hpa]{Name: name, Edit: edit, Want: want}
	}
	external := autoscalingv2.MetricSpec{Type: "External", External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "m"}, Target: autoscalingv2.MetricTarget{Type: "Value", Value: quantity("1")}}}
	kindtest.Update(t, HorizontalPodAutoscaler(), good(func(h *hpa) {
		h.Spec.MinReplicas, h.Spec.Metrics = kindtest.Ptr[int32](0), []autoscalingv2.MetricSpec{external}
	}),
		c("zero stays", func(h *hpa) { h.Spec.MaxReplicas = 9 }, nil),
		c("below", func(h *hpa) { h.Spec.MinReplicas = kindtest.Ptr[int32](-1) }, []string{`spec.minReplicas: Invalid value: -1: must be greater than or equal to 0`}),
	)
	kindtest.UpdateSubresource(t, HorizontalPodAutoscaler(), "status", good(nil),
		c("numbers", func(h *hpa) { h.Status.CurrentReplicas, h.Status.DesiredReplicas = -1, -2 }, []string{
			`status.currentReplicas: Invalid value: -1: must be greater than or equal to 0`,
			`status.desiredReplicas: Invalid value: -2: must be greater than or equal to 0`,
		}),
	)
}

func TestHPA_Row(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	h := good(nil)
	kindtest.Row(t, HorizontalPodAutoscaler(), h, now, "h", "Deployment/web", "cpu: <unknown>/80%", "1", int64(5), int64(0), "<unknown>")
	h.Spec.MinReplicas = nil
	h.Spec.Metrics = append(h.Spec.Metrics,
		autoscalingv2.MetricSpec{Type: "External", External: &autoscalingv2.ExternalMetricSource{Target: autoscalingv2.MetricTarget{AverageValue: quantity("3")}}},
		autoscalingv2.MetricSpec{Type: "Pods"})
	h.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
		Type: "Resource", Resource: &autoscalingv2.ResourceMetricStatus{Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: kindtest.Ptr[int32](12)}},
	}}
	kindtest.Row(t, HorizontalPodAutoscaler(), h, now, "h", "Deployment/web", "cpu: 12%/80%, <unknown>/3 (avg) + 1 more...", "<unset>", int64(5), int64(0), "<unknown>")
}

// What is stored comes back the same through v1 and its annotations.
func TestHPAV1_RoundTrip(t *testing.T) {
	h := good(func(h *hpa) {
		h.Annotations = map[string]string{"a": "b"}
		h.Spec.Metrics = []autoscalingv2.MetricSpec{
			{Type: "Pods", Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "p"}, Target: autoscalingv2.MetricTarget{Type: "AverageValue", AverageValue: quantity("2")}}},
			{Type: "Object", Object: &autoscalingv2.ObjectMetricSource{
				DescribedObject: autoscalingv2.CrossVersionObjectReference{Kind: "Service", Name: "s"},
				Metric:          autoscalingv2.MetricIdentifier{Name: "o"}, Target: autoscalingv2.MetricTarget{Type: "Value", Value: quantity("3")}}},
			{Type: "External", External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "e"}, Target: autoscalingv2.MetricTarget{Type: "AverageValue", AverageValue: quantity("4")}}},
			{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: "memory", Container: "c", Target: autoscalingv2.MetricTarget{Type: "AverageValue", AverageValue: quantity("5")}}},
			cpuMetric(50),
		}
		h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{}
		h.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{Type: "Resource", Resource: &autoscalingv2.ResourceMetricStatus{
			Name: "cpu", Current: autoscalingv2.MetricValueStatus{AverageUtilization: kindtest.Ptr[int32](12)}}}}
		h.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: "AbleToScale", Status: "True"}}
	})
	before := h.DeepCopy()
	v1, err := toV1(h)
	if err != nil {
		t.Fatal(err)
	}
	old := v1.(*autoscalingv1.HorizontalPodAutoscaler)
	if *old.Spec.TargetCPUUtilizationPercentage != 50 || *old.Status.CurrentCPUUtilizationPercentage != 12 {
		t.Errorf("v1: %+v %+v", old.Spec, old.Status)
	}
	const behavior = `{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15},{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null},` +
		`"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}`
	if got := old.Annotations[behaviorAnnotation]; got != behavior {
		t.Errorf("behavior %s", got)
	}
	if diff := cmp.Diff(before, fromV1(old)); diff != "" {
		t.Errorf("there and back (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, h); diff != "" {
		t.Errorf("the stored object changed:\n%s", diff)
	}
}

func TestHPAV1_Defaults(t *testing.T) {
	v1 := &autoscalingv1.HorizontalPodAutoscaler{Spec: autoscalingv1.HorizontalPodAutoscalerSpec{MaxReplicas: 3}}
	HorizontalPodAutoscalerV1().Default(v1)
	got := fromV1(v1).(*hpa)
	if diff := cmp.Diff([]autoscalingv2.MetricSpec{cpuMetric(80)}, got.Spec.Metrics); diff != "" || *got.Spec.MinReplicas != 1 {
		t.Errorf("spec %+v", got.Spec)
	}
	v1.Annotations = map[string]string{metricsAnnotation: "no JSON", "a": "b"}
	got = fromV1(v1).(*hpa)
	if diff := cmp.Diff(map[string]string{"a": "b"}, got.Annotations); diff != "" || len(got.Spec.Metrics) != 1 {
		t.Errorf("a broken annotation: %+v", got)
	}
}
