package bootstrap

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/auth/rbac/reconciliation"

	"vigil/apiserver/authz/bootstrappolicy"
)

// atOnce is how many roles and bindings are written at the same time: etcd commits them together.
const atOnce = 32

// EnsureRoles makes the roles and bindings that every cluster starts with, and adds the rules and subjects that existing ones lack. What
// was added to them stays; those with the annotation rbac.authorization.kubernetes.io/autoupdate=false are left alone. It returns the
// names of all bindings.
func (b *Bootstrap) EnsureRoles(ctx context.Context) ([]types.NamespacedName, error) {
	if err := b.ensureNamespaces(ctx); err != nil {
		return nil, err
	}
	var bound []types.NamespacedName
	roles, ctxRoles := errgroup.WithContext(ctx)
	roles.SetLimit(atOnce)
	for _, role := range bootstrappolicy.ClusterRoles() {
		roles.Go(func() error {
			return b.ensureRole(ctxRoles, clusterRoles, reconciliation.ClusterRoleRuleOwner{ClusterRole: &role})
		})
	}
	for _, role := range bootstrappolicy.Roles() {
		roles.Go(func() error {
			return b.ensureRole(ctxRoles, namespacedRoles, reconciliation.RoleRuleOwner{Role: &role})
		})
	}
	if err := roles.Wait(); err != nil {
		return nil, err
	}
	bindings, ctxBindings := errgroup.WithContext(ctx)
	bindings.SetLimit(atOnce)
	for _, binding := range bootstrappolicy.ClusterRoleBindings() {
		bound = append(bound, types.NamespacedName{Name: binding.Name})
		bindings.Go(func() error {
			return b.ensureBinding(ctxBindings, clusterRoleBindings, reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &binding})
		})
	}
	for _, binding := range bootstrappolicy.RoleBindings() {
		bound = append(bound, types.NamespacedName{Namespace: binding.Namespace, Name: binding.Name})
		bindings.Go(func() error {
			return b.ensureBinding(ctxBindings, roleBindings, reconciliation.RoleBindingAdapter{RoleBinding: &binding})
		})
	}
	return bound, bindings.Wait()
}

var (
	clusterRoles        = rbacv1.SchemeGroupVersion.WithResource("clusterroles")
	namespacedRoles     = rbacv1.SchemeGroupVersion.WithResource("roles")
	clusterRoleBindings = rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")
	roleBindings        = rbacv1.SchemeGroupVersion.WithResource("rolebindings")
)

func (b *Bootstrap) ensureRole(ctx context.Context, resource schema.GroupVersionResource, role reconciliation.RuleOwner) error {
	options := reconciliation.ReconcileRoleOptions{Role: role, Confirm: true, Client: ruleOwners{ctx, b, resource}}
	if _, err := options.Run(); err != nil {
		return fmt.Errorf("reconcile %s %s: %w", resource.Resource, role.GetName(), err)
	}
	return nil
}

func (b *Bootstrap) ensureBinding(ctx context.Context, resource schema.GroupVersionResource, binding reconciliation.RoleBinding) error {
	options := reconciliation.ReconcileRoleBindingOptions{RoleBinding: binding, Confirm: true, Client: bindings{ctx, b, resource}}
	if _, err := options.Run(); err != nil {
		return fmt.Errorf("reconcile %s %s: %w", resource.Resource, binding.GetName(), err)
	}
	return nil
}

// ruleOwners reads and writes roles for the time of one reconciliation, whose client takes no context.
type ruleOwners struct {
	ctx      context.Context //nolint:containedctx // see above
	b        *Bootstrap
	resource schema.GroupVersionResource
}

func (r ruleOwners) Get(namespace, name string) (reconciliation.RuleOwner, error) {
	obj, err := r.b.newest(r.resource, namespace, name)
	if err != nil {
		return nil, err
	}
	switch role := obj.(type) {
	case *rbacv1.ClusterRole:
		return reconciliation.ClusterRoleRuleOwner{ClusterRole: role}, nil
	case *rbacv1.Role:
		return reconciliation.RoleRuleOwner{Role: role}, nil
	}
	return nil, apierrors.NewNotFound(r.resource.GroupResource(), name)
}

func (r ruleOwners) Create(role reconciliation.RuleOwner) (reconciliation.RuleOwner, error) {
	return role, r.b.createTyped(r.ctx, r.resource, role.GetNamespace(), role.GetObject())
}

func (r ruleOwners) Update(role reconciliation.RuleOwner) (reconciliation.RuleOwner, error) {
	return role, r.b.updateTyped(r.ctx, r.resource, role.GetNamespace(), role.GetName(), role.GetObject())
}

// bindings are to bindings what ruleOwners are to roles.
type bindings struct {
	ctx      context.Context //nolint:containedctx // as in ruleOwners
	b        *Bootstrap
	resource schema.GroupVersionResource
}

func (r bindings) Get(namespace, name string) (reconciliation.RoleBinding, error) {
	obj, err := r.b.newest(r.resource, namespace, name)
	if err != nil {
		return nil, err
	}
	switch binding := obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		return reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: binding}, nil
	case *rbacv1.RoleBinding:
		return reconciliation.RoleBindingAdapter{RoleBinding: binding}, nil
	}
	return nil, apierrors.NewNotFound(r.resource.GroupResource(), name)
}

func (r bindings) Create(binding reconciliation.RoleBinding) (reconciliation.RoleBinding, error) {
	return binding, r.b.createTyped(r.ctx, r.resource, binding.GetNamespace(), binding.GetObject())
}

func (r bindings) Update(binding reconciliation.RoleBinding) (reconciliation.RoleBinding, error) {
	return binding, r.b.updateTyped(r.ctx, r.resource, binding.GetNamespace(), binding.GetName(), binding.GetObject())
}

// Delete removes a binding whose role is another one than it should be; it is made again.
func (r bindings) Delete(namespace, name string, _ types.UID) error {
	request, err := r.b.request(r.resource, namespace, name, nil)
	if err != nil {
		return err
	}
	request.Body = nil
	_, err = r.b.config.Writer.Delete(r.ctx, request)
	return err
}

// createTyped creates an object that does not say what it is.
func (b *Bootstrap) createTyped(ctx context.Context, resource schema.GroupVersionResource, namespace string, obj runtime.Object) error {
	obj.GetObjectKind().SetGroupVersionKind(b.config.Kinds().ByResource(resource).GVK)
	request, err := b.request(resource, namespace, "", obj)
	if err != nil {
		return err
	}
	_, err = b.config.Writer.Create(ctx, request)
	return err
}

func (b *Bootstrap) updateTyped(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, obj runtime.Object) error {
	obj.GetObjectKind().SetGroupVersionKind(b.config.Kinds().ByResource(resource).GVK)
	request, err := b.request(resource, namespace, name, obj)
	if err != nil {
		return err
	}
	_, err = b.config.Writer.Update(ctx, request)
	return err
}
