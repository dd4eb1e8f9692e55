package bootstrap_test

import (
	"context"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authz/bootstrappolicy"
)

// TestEnsureRoles: a new cluster gets all roles and bindings; what is missing later is added, what others added stays, and what is
// marked to be left alone is.
func TestEnsureRoles(t *testing.T) {
	s := apiservertest.Start(t)
	c, b, ctx := s.Clientset().RbacV1(), begin(t, s, "192.0.2.1"), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	bound, err := b.EnsureRoles(ctx)
	must(err)
	s.Settle(t)
	roles, err := c.ClusterRoles().List(ctx, metav1.ListOptions{})
	must(err)
	bindings, err := c.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	must(err)
	inNamespaces, err := c.RoleBindings("").List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/bootstrapping=rbac-defaults"})
	must(err)
	if len(roles.Items) != len(bootstrappolicy.ClusterRoles()) || len(bindings.Items)+len(inNamespaces.Items) != len(bound) {
		t.Errorf("%d roles, %d and %d bindings", len(roles.Items), len(bindings.Items), len(inNamespaces.Items))
	}
	if !slices.Contains(bound, types.NamespacedName{Name: "cluster-admin"}) || !slices.Contains(bound, types.NamespacedName{Namespace: "kube-public", Name: "system:controller:bootstrap-signer"}) {
		t.Errorf("bound: %v", bound)
	}

	// A second time changes nothing.
	version := roles.ResourceVersion
	_, err = b.EnsureRoles(ctx)
	must(err)
	if roles, err = c.ClusterRoles().List(ctx, metav1.ListOptions{}); err != nil || roles.ResourceVersion != version {
		t.Errorf("revision %s after %s: %v", roles.ResourceVersion, version, err)
	}

	own := rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/own"}}
	change := func(name string, edit func(*rbacv1.ClusterRole)) {
		t.Helper()
		role, err := c.ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		must(err)
		edit(role)
		_, err = c.ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
		must(err)
	}
	change("system:discovery", func(r *rbacv1.ClusterRole) { r.Rules, r.Labels = []rbacv1.PolicyRule{own}, nil })
	change("system:monitoring", func(r *rbacv1.ClusterRole) {
		r.Rules, r.Annotations = []rbacv1.PolicyRule{own}, map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"}
	})
	binding, err := c.ClusterRoleBindings().Get(ctx, "system:public-info-viewer", metav1.GetOptions{})
	must(err)
	binding.Subjects = []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "joe"}}
	_, err = c.ClusterRoleBindings().Update(ctx, binding, metav1.UpdateOptions{})
	must(err)
	must(c.ClusterRoleBindings().Delete(ctx, "system:discovery", metav1.DeleteOptions{}))
	must(c.ClusterRoleBindings().Delete(ctx, "system:basic-user", metav1.DeleteOptions{}))
	_, err = c.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ // with another role than it should have
		ObjectMeta: metav1.ObjectMeta{Name: "system:basic-user"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}, metav1.CreateOptions{})
	must(err)
	s.Settle(t)
	do(t, func(ctx context.Context) error { _, err := b.EnsureRoles(ctx); return err })

	role, err := c.ClusterRoles().Get(ctx, "system:discovery", metav1.GetOptions{})
	if err != nil || len(role.Rules) < 2 || role.Rules[0].NonResourceURLs[0] != "/own" || len(role.Labels) != 1 {
		t.Errorf("system:discovery: %+v, %v", role, err)
	}
	role, err = c.ClusterRoles().Get(ctx, "system:monitoring", metav1.GetOptions{})
	if err != nil || len(role.Rules) != 1 {
		t.Errorf("system:monitoring: %+v, %v", role, err)
	}
	binding, err = c.ClusterRoleBindings().Get(ctx, "system:public-info-viewer", metav1.GetOptions{})
	if err != nil || len(binding.Subjects) != 3 {
		t.Errorf("system:public-info-viewer: %+v, %v", binding, err)
	}
	binding, err = c.ClusterRoleBindings().Get(ctx, "system:basic-user", metav1.GetOptions{})
	if err != nil || binding.RoleRef.Name != "system:basic-user" || len(binding.Subjects) != 1 {
		t.Errorf("system:basic-user: %+v, %v", binding, err)
	}
	if _, err := c.ClusterRoleBindings().Get(ctx, "system:discovery", metav1.GetOptions{}); err != nil {
		t.Errorf("system:discovery: %v", err)
	}
}
