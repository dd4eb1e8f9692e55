package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/object"
)

// Role is the row of roles.
func Role() *kinds.Kind {
	return &kinds.Kind{
		GVK:        rbacv1.SchemeGroupVersion.WithKind("Role"),
		Resource:   "roles",
		Singular:   "role",
		Namespaced: true,
		Path:       "roles",
		Type: &object.Type{
			APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role", Namespaced: true,
			New: func() runtime.Object { return &rbacv1.Role{} },
		},
		New:     func() kinds.Object { return &rbacv1.Role{} },
		NewList: func() runtime.Object { return &rbacv1.RoleList{} },

		ValidateName: validateName,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateRules(obj.(*rbacv1.Role).Rules, true, field.NewPath("rules"))
		},
		AllowCreateOnUpdate: true,
		UnconditionalUpdate: true,
	}
}

// validateName accepts what can be a segment of a path: names like system:node are usual.
func validateName(name string, _ bool) []string { return content.IsPathSegmentName(name) }

func validateRules(rules []rbacv1.PolicyRule, namespaced bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range rules {
		errs = append(errs, validateRule(&rules[i], namespaced, path.Index(i))...)
	}
	return errs
}

// validateRule wants a rule for resources or one for paths. Roles of a namespace have none for paths.
func validateRule(rule *rbacv1.PolicyRule, namespaced bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(rule.Verbs) == 0 {
		errs = append(errs, field.Required(path.Child("verbs"), "verbs must contain at least one value"))
	}
	if len(rule.NonResourceURLs) > 0 {
		at := path.Child("nonResourceURLs")
		if namespaced {
			errs = append(errs, field.Invalid(at, rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
		}
		if len(rule.APIGroups) > 0 || len(rule.Resources) > 0 || len(rule.ResourceNames) > 0 {
			errs = append(errs, field.Invalid(at, rule.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
		}
		return errs
	}
	if len(rule.APIGroups) == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if len(rule.Resources) == 0 {
		errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
	return errs
}
