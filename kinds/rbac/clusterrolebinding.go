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

// ClusterRoleBinding is the row of cluster role bindings.
func ClusterRoleBinding() *kinds.Kind {
	return &kinds.Kind{
		GVK:      rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
		Resource: "clusterrolebindings",
		Singular: "clusterrolebinding",
		Path:     "clusterrolebindings",
		Type: &object.Type{
			APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding",
			New: func() runtime.Object { return &rbacv1.ClusterRoleBinding{} },
		},
		New:     func() kinds.Object { return &rbacv1.ClusterRoleBinding{} },
		NewList: func() runtime.Object { return &rbacv1.ClusterRoleBindingList{} },

		Default: func(obj kinds.Object) {
			binding := obj.(*rbacv1.ClusterRoleBinding)
			defaultBinding(&binding.RoleRef, binding.Subjects)
		},
		ValidateName: validateName,
		Validate: func(obj kinds.Object) field.ErrorList {
			binding := obj.(*rbacv1.ClusterRoleBinding)
			return validateBinding(binding.RoleRef, binding.Subjects, false)
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			binding, was := obj.(*rbacv1.ClusterRoleBinding), old.(*rbacv1.ClusterRoleBinding)
			return append(validateBinding(binding.RoleRef, binding.Subjects, false), validateRoleRef(binding.RoleRef, was.RoleRef)...)
		},
		AllowCreateOnUpdate: true,
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Role", rbacv1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"]),
			column.Age(),
			column.Wide(column.Text("Users", "Users in the clusterRoleBinding")),
			column.Wide(column.Text("Groups", "Groups in the clusterRoleBinding")),
			column.Wide(column.Text("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding")),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			binding := obj.(*rbacv1.ClusterRoleBinding)
			users, groups, accounts := subjectCells(binding.Subjects)
			return []any{
				binding.Name, binding.RoleRef.Kind + "/" + binding.RoleRef.Name, column.Since(binding.CreationTimestamp, now),
				users, groups, accounts,
			}
		},
	}
}
