package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/object"
)

// ClusterRole is the row of cluster roles.
func ClusterRole() *kinds.Kind {
	return &kinds.Kind{
		GVK:      rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
		Resource: "clusterroles",
		Singular: "clusterrole",
		Path:     "clusterroles",
		Type: &object.Type{
			APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole",
			New: func() runtime.Object { return &rbacv1.ClusterRole{} },
		},
		New:     func() kinds.Object { return &rbacv1.ClusterRole{} },
		NewList: func() runtime.Object { return &rbacv1.ClusterRoleList{} },

		ValidateName: validateName,
		Validate:     func(obj kinds.Object) field.ErrorList { return validateClusterRole(obj.(*rbacv1.ClusterRole), nil) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateClusterRole(obj.(*rbacv1.ClusterRole), old.(*rbacv1.ClusterRole))
		},
		AllowCreateOnUpdate: true,
		UnconditionalUpdate: true,
	}
}

// validateClusterRole checks a role; old is nil on create. Selectors of an old role that has a bad label value stay
// acceptable.
func validateClusterRole(role, old *rbacv1.ClusterRole) field.ErrorList {
	errs := validateRules(role.Rules, false, field.NewPath("rules"))
	if role.AggregationRule == nil {
		return errs
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(role.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs, field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	opts := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: old != nil && hasBadSelector(old)}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector := &role.AggregationRule.ClusterRoleSelectors[i]
		errs = append(errs, metav1validation.ValidateLabelSelector(selector, opts, path.Index(i))...)
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), selector, "invalid label selector."))
		}
	}
	return errs
}

func hasBadSelector(role *rbacv1.ClusterRole) bool {
	if role.AggregationRule == nil {
		return false
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		if metav1validation.LabelSelectorHasInvalidLabelValue(&role.AggregationRule.ClusterRoleSelectors[i]) {
			return true
		}
	}
	return false
}
