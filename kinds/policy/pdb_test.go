package policy

import (
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"vigil/kinds/kindtest"
)

func budget(edit func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "ns"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: kindtest.Ptr(intstr.FromInt32(1))},
	}
	if edit != nil {
		edit(b)
	}
	return b
}

func TestPodDisruptionBudget_Minimal(t *testing.T) {
	kindtest.Minimal(t, PodDisruptionBudget(), `{metadata: {name: b, namespace: ns}, status: {disruptionsAllowed: 3}}`,
		`{metadata: {name: b, namespace: ns, generation: 1}}`)
}

func TestPodDisruptionBudget_Create(t *testing.T) {
	c := func(name string, edit func(*policyv1.PodDisruptionBudget), want []string) kindtest.Case[policyv1.PodDisruptionBudget] {
		return kindtest.Case[policyv1.PodDisruptionBudget]{Name: name, Edit: edit, Want: want}
	}
	kindtest.Create(t, PodDisruptionBudget(), budget(nil),
		c("both bounds", func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = kindtest.Ptr(intstr.FromInt32(2)) },
			[]string{`spec: Invalid value: {"minAvailable":1,"maxUnavailable":2}: minAvailable and maxUnavailable cannot be both set`}),
		c("negative", func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = kindtest.Ptr(intstr.FromInt32(-1)) },
			[]string{`spec.minAvailable: Invalid value: -1: must be greater than or equal to 0`}),
		c("more than all", func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = kindtest.Ptr(intstr.FromString("101%")) },
			[]string{`spec.minAvailable: Invalid value: "101%": must not be greater than 100%`}),
		c("policy", func(b *policyv1.PodDisruptionBudget) {
			b.Spec.UnhealthyPodEvictionPolicy = kindtest.Ptr[policyv1.UnhealthyPodEvictionPolicyType]("x")
		}, []string{`spec.unhealthyPodEvictionPolicy: Unsupported value: "x": supported values: "AlwaysAllow", "IfHealthyBudget"`}),
		c("selector", func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
		}, []string{`spec.selector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`}),
	)
}

func TestPodDisruptionBudget_Update(t *testing.T) {
	c := func(name string, edit func(*policyv1.PodDisruptionBudget), want []string) kindtest.Case[policyv1.PodDisruptionBudget] {
		return kindtest.Case[policyv1.PodDisruptionBudget]{Name: name, Edit: edit, Want: want}
	}
	old := budget(func(b *policyv1.PodDisruptionBudget) {
		b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"b c"}}}}
	})
	kindtest.Update(t, PodDisruptionBudget(), old,
		c("spec, with a label value that was bad already", func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = kindtest.Ptr(intstr.FromString("50%")) }, nil),
		c("status stays", func(b *policyv1.PodDisruptionBudget) { b.Status.ExpectedPods = -1 }, nil),
		c("bound", func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = kindtest.Ptr(intstr.FromInt32(-1)) },
			[]string{`spec.minAvailable: Invalid value: -1: must be greater than or equal to 0`}),
	)
	kindtest.UpdateSubresource(t, PodDisruptionBudget(), "status", old,
		c("numbers", func(b *policyv1.PodDisruptionBudget) {
			b.Spec.MinAvailable = nil
			b.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: -1, CurrentHealthy: -2, DesiredHealthy: -3, ExpectedPods: -4}
		}, []string{
			`status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0`,
			`status.currentHealthy: Invalid value: -2: must be greater than or equal to 0`,
			`status.desiredHealthy: Invalid value: -3: must be greater than or equal to 0`,
			`status.expectedPods: Invalid value: -4: must be greater than or equal to 0`,
		}),
		c("condition", func(b *policyv1.PodDisruptionBudget) {
			b.Status.Conditions = []metav1.Condition{{Type: "a", Status: "True", Reason: "R"}}
		}, []string{`status.conditions[0].lastTransitionTime: Required value`}),
	)
}

func TestPodDisruptionBudget_Row(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	kindtest.Row(t, PodDisruptionBudget(), budget(func(b *policyv1.PodDisruptionBudget) {
		b.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
		b.Status.DisruptionsAllowed = 2
	}), now, "b", "1", "N/A", int64(2), "60s")
}
