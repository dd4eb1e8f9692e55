package policy

import (
	"slices"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// PodDisruptionBudget is the row of disruption budgets. An update must carry the resourceVersion that it was read at:
// evictions count on the status that they have seen.
func PodDisruptionBudget() *kinds.Kind {
	spec, status := policyv1.PodDisruptionBudgetSpec{}.SwaggerDoc(), policyv1.PodDisruptionBudgetStatus{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:        policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		Resource:   "poddisruptionbudgets",
		Singular:   "poddisruptionbudget",
		ShortNames: []string{"pdb"},
		Namespaced: true,
		Path:       "poddisruptionbudgets",
		Type: &object.Type{
			APIVersion: "policy/v1", Kind: "PodDisruptionBudget", Namespaced: true,
			New: func() runtime.Object { return &policyv1.PodDisruptionBudget{} },
		},

		New:     func() kinds.Object { return &policyv1.PodDisruptionBudget{} },
		NewList: func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} },

		PrepareCreate: func(obj kinds.Object) {
			obj.(*policyv1.PodDisruptionBudget).Status = policyv1.PodDisruptionBudgetStatus{}
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*policyv1.PodDisruptionBudget).Status = old.(*policyv1.PodDisruptionBudget).Status
		},
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateSpec(&obj.(*policyv1.PodDisruptionBudget).Spec, nil, field.NewPath("spec"))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateSpec(&obj.(*policyv1.PodDisruptionBudget).Spec, &old.(*policyv1.PodDisruptionBudget).Spec, field.NewPath("spec"))
		},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Min Available", spec["minAvailable"]),
			column.Text("Max Unavailable", spec["maxUnavailable"]),
			column.Integer("Allowed Disruptions", status["disruptionsAllowed"]),
			column.Age(),
		},
		Row: row,

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*policyv1.PodDisruptionBudget).Spec = old.(*policyv1.PodDisruptionBudget).Spec
			},
			Validate: validateStatus,
		}},
	}
}

// evictionPolicies are what may be done with pods that are not ready, sorted as error texts show them.
var evictionPolicies = []policyv1.UnhealthyPodEvictionPolicyType{policyv1.AlwaysAllow, policyv1.IfHealthyBudget}

// validateSpec checks a spec; old is nil on create.
func validateSpec(spec, old *policyv1.PodDisruptionBudgetSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path, *spec, "minAvailable and maxUnavailable cannot be both set"))
	}
	for _, bound := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"minAvailable", spec.MinAvailable}, {"maxUnavailable", spec.MaxUnavailable}} {
		if bound.value != nil {
			errs = append(errs, validate.IntOrPercent(*bound.value, path.Child(bound.name))...)
			errs = append(errs, validate.NotOver100Percent(*bound.value, path.Child(bound.name))...)
		}
	}
	if old == nil {
		errs = append(errs, validate.LabelSelector(spec.Selector, path.Child("selector"))...)
	} else {
		errs = append(errs, validate.LabelSelectorUpdate(spec.Selector, old.Selector, path.Child("selector"))...)
	}
	if p := spec.UnhealthyPodEvictionPolicy; p != nil && !slices.Contains(evictionPolicies, *p) {
		errs = append(errs, field.NotSupported(path.Child("unhealthyPodEvictionPolicy"), *p, evictionPolicies))
	}
	return errs
}

func validateStatus(obj, _ kinds.Object) field.ErrorList {
	path := field.NewPath("status")
	s := &obj.(*policyv1.PodDisruptionBudget).Status
	errs := metav1validation.ValidateConditions(s.Conditions, path.Child("conditions"))
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"disruptionsAllowed", s.DisruptionsAllowed}, {"currentHealthy", s.CurrentHealthy},
		{"desiredHealthy", s.DesiredHealthy}, {"expectedPods", s.ExpectedPods},
	} {
		errs = append(errs, validate.NonNegative(int64(n.value), path.Child(n.name))...)
	}
	return errs
}

func row(obj kinds.Object, now time.Time) []any {
	pdb := obj.(*policyv1.PodDisruptionBudget)
	text := func(bound *intstr.IntOrString) string {
		if bound == nil {
			return "N/A"
		}
		return bound.String()
	}
	return []any{
		pdb.Name,
		text(pdb.Spec.MinAvailable),
		text(pdb.Spec.MaxUnavailable),
		int64(pdb.Status.DisruptionsAllowed),
		column.Since(pdb.CreationTimestamp, now),
	}
}
