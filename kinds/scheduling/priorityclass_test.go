package scheduling

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

type pc = kindtest.Case[schedulingv1.PriorityClass]

func good() *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{
		ObjectMeta:       metav1.ObjectMeta{Name: "high"},
		Value:            10,
		PreemptionPolicy: kindtest.Ptr(corev1.PreemptLowerPriority),
	}
}

func TestPriorityClass_Minimal(t *testing.T) {
	kindtest.Minimal(t, PriorityClass(), `metadata: {name: high}`,
		`{metadata: {name: high, generation: 1}, value: 0, preemptionPolicy: PreemptLowerPriority}`)
}

func TestPriorityClass_Create(t *testing.T) {
	kindtest.Create(t, PriorityClass(), good(),
		pc{Name: "highest", Edit: func(c *schedulingv1.PriorityClass) { c.Value = HighestUserPriority }},
		pc{
			Name: "too high", Edit: func(c *schedulingv1.PriorityClass) { c.Value = HighestUserPriority + 1 },
			Want: []string{"value: Forbidden: maximum allowed value of a user defined priority is 1000000000"},
		},
		pc{
			Name: "policy", Edit: func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = kindtest.Ptr(corev1.PreemptionPolicy("x")) },
			Want: []string{`preemptionPolicy: Unsupported value: "x": supported values: "PreemptLowerPriority", "Never"`},
		},
		pc{Name: "never", Edit: func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = kindtest.Ptr(corev1.PreemptNever) }},
		pc{
			Name: "no policy", Edit: func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = kindtest.Ptr(corev1.PreemptionPolicy("")) },
			Want: []string{`preemptionPolicy: Required value`},
		},
		pc{
			Name: "reserved name", Edit: func(c *schedulingv1.PriorityClass) { c.Name = "system-x" },
			Want: []string{"metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class"},
		},
		pc{
			Name: "system value", Edit: func(c *schedulingv1.PriorityClass) { c.Name = "system-node-critical" },
			Want: []string{"metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: value of system-node-critical PriorityClass must be 2000001000"},
		},
		pc{
			Name: "system default", Edit: func(c *schedulingv1.PriorityClass) {
				c.Name, c.Value, c.GlobalDefault = "system-cluster-critical", 2000000000, true
			},
			Want: []string{"metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: globalDefault of system-cluster-critical PriorityClass must be false"},
		},
	)
	for _, class := range SystemClasses() {
		kindtest.Create[schedulingv1.PriorityClass](t, PriorityClass(), class)
	}
}

func TestPriorityClass_Update(t *testing.T) {
	kindtest.Update(t, PriorityClass(), good(),
		pc{Name: "description", Edit: func(c *schedulingv1.PriorityClass) { c.Description, c.GlobalDefault = "x", true }},
		pc{
			Name: "value", Edit: func(c *schedulingv1.PriorityClass) { c.Value++ },
			Want: []string{"value: Forbidden: may not be changed in an update."},
		},
		pc{
			Name: "policy", Edit: func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = kindtest.Ptr(corev1.PreemptNever) },
			Want: []string{`preemptionPolicy: Invalid value: "Never": field is immutable`},
		},
	)
}

func TestPriorityClass_Row(t *testing.T) {
	kindtest.Row(t, PriorityClass(), good(), time.Now(), "high", int64(10), false, "<unknown>", "PreemptLowerPriority")
}
