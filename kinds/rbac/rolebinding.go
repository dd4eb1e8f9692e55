package rbac

import (
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// RoleBinding is the row of role bindings.
func RoleBinding() *kinds.Kind {
	return &kinds.Kind{
		GVK:        rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		Resource:   "rolebindings",
		Singular:   "rolebinding",
		Namespaced: true,
		Path:       "rolebindings",
		Type: &object.Type{
			APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding", Namespaced: true,
			New: func() runtime.Object { return &rbacv1.RoleBinding{} },
		},
		New:     func() kinds.Object { return &rbacv1.RoleBinding{} },
		NewList: func() runtime.Object { return &rbacv1.RoleBindingList{} },

		Default: func(obj kinds.Object) {
			binding := obj.(*rbacv1.RoleBinding)
			defaultBinding(&binding.RoleRef, binding.Subjects)
		},
		ValidateName: validateName,
		Validate: func(obj kinds.Object) field.ErrorList {
			binding := obj.(*rbacv1.RoleBinding)
			return validateBinding(binding.RoleRef, binding.Subjects, true)
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			binding, was := obj.(*rbacv1.RoleBinding), old.(*rbacv1.RoleBinding)
			return append(validateBinding(binding.RoleRef, binding.Subjects, true), validateRoleRef(binding.RoleRef, was.RoleRef)...)
		},
		AllowCreateOnUpdate: true,
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Role", rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"]),
			column.Age(),
			column.Wide(column.Text("Users", "Users in the roleBinding")),
			column.Wide(column.Text("Groups", "Groups in the roleBinding")),
			column.Wide(column.Text("ServiceAccounts", "ServiceAccounts in the roleBinding")),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			binding := obj.(*rbacv1.RoleBinding)
			users, groups, accounts := subjectCells(binding.Subjects)
			return []any{
				binding.Name, binding.RoleRef.Kind + "/" + binding.RoleRef.Name, column.Since(binding.CreationTimestamp, now),
				users, groups, accounts,
			}
		},
	}
}
