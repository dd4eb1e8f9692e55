// Package escalation keeps people from giving out what they do not have: a role may be written only by who holds all that it grants,
// or verb escalate on it; a binding only by who holds all that its role grants, or verb bind on that role.
//
// Follows upstream's pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased. Start with [Hooks].
package escalation

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/write"
	"vigil/kinds"
)

// Config says who knows what. All fields are needed.
type Config struct {
	Authorizer authz.Authorizer
	// Held returns the rules that a user holds in the cluster and, if namespace is not empty, there. The error names what could not
	// be found out; the rules count in spite of it.
	Held func(user *authn.User, namespace string) ([]rbacv1.PolicyRule, error)
	// Role returns the rules of the role that a binding in namespace (empty for a ClusterRoleBinding) refers to, not older than the
	// call. The error is an APIStatus.
	Role func(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error)
}

// guard checks writes.
type guard struct{ Config }

// Hooks returns the hooks of roles and bindings.
func Hooks(c Config) map[schema.GroupResource]write.Hook {
	g := guard{c}
	hooks := map[schema.GroupResource]write.Hook{}
	for resource, check := range map[string]func(ctx context.Context, r *write.Request, obj, old kinds.Object) error{
		"roles": g.role, "clusterroles": g.role, "rolebindings": g.binding, "clusterrolebindings": g.binding,
	} {
		hooks[rbacv1.Resource(resource)] = write.Hook{Check: func(ctx context.Context, r *write.Request, obj, old kinds.Object) error {
			if r.User.InGroup(authn.GroupMasters) || old != nil && onlyForDeletion(obj, old) {
				return nil
			}
			return check(ctx, r, obj, old)
		}}
	}
	return hooks
}

// everything is what whoever sets an aggregation rule has to hold: it may gather any rules.
var everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

// role checks the write of a Role or ClusterRole.
func (g guard) role(ctx context.Context, r *write.Request, obj, old kinds.Object) error {
	gr := r.Kind.GroupResource()
	allowed, _, err := g.Authorizer.Authorize(ctx, &authz.Attributes{
		User: r.User, Verb: "escalate", Group: gr.Group, Version: "*", Resource: gr.Resource, Namespace: r.Namespace, Name: r.Name,
	})
	if err == nil && allowed {
		return nil
	}
	rules, aggregated := contents(obj)
	if old != nil {
		_, was := contents(old)
		aggregated = aggregated || was
	}
	if err := g.confirm(r.User, r.Namespace, rules); err != nil {
		return apierrors.NewForbidden(gr, obj.GetName(), err)
	}
	if aggregated && g.confirm(r.User, r.Namespace, everything) != nil {
		return apierrors.NewForbidden(gr, obj.GetName(), errors.New("must have cluster-admin privileges to use the aggregationRule"))
	}
	return nil
}

func contents(obj kinds.Object) (rules []rbacv1.PolicyRule, aggregated bool) {
	switch role := obj.(type) {
	case *rbacv1.Role:
		return role.Rules, false
	case *rbacv1.ClusterRole:
		return role.Rules, role.AggregationRule != nil
	}
	return everything, true
}

// binding checks the write of a RoleBinding or ClusterRoleBinding.
func (g guard) binding(ctx context.Context, r *write.Request, obj, _ kinds.Object) error {
	var ref rbacv1.RoleRef
	switch binding := obj.(type) {
	case *rbacv1.RoleBinding:
		ref = binding.RoleRef
	case *rbacv1.ClusterRoleBinding:
		ref = binding.RoleRef
	}
	if g.mayBind(ctx, r, ref) {
		return nil
	}
	rules, err := g.Role(ctx, ref, r.Namespace)
	if err != nil {
		return err
	}
	if err := g.confirm(r.User, r.Namespace, rules); err != nil {
		return apierrors.NewForbidden(r.Kind.GroupResource(), obj.GetName(), err)
	}
	return nil
}

func (g guard) mayBind(ctx context.Context, r *write.Request, ref rbacv1.RoleRef) bool {
	resource := map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[ref.Kind]
	if resource == "" {
		return false
	}
	allowed, _, err := g.Authorizer.Authorize(ctx, &authz.Attributes{
		User: r.User, Verb: "bind", Group: ref.APIGroup, Version: "*", Resource: resource, Namespace: r.Namespace, Name: ref.Name,
	})
	return err == nil && allowed
}

// onlyForDeletion says whether an update changes no more than what the deletion of an object waits for. Garbage collection may do that
// without holding what the object grants.
func onlyForDeletion(obj, old kinds.Object) bool {
	obj = obj.DeepCopyObject().(kinds.Object)
	obj.SetOwnerReferences(old.GetOwnerReferences())
	obj.SetFinalizers(old.GetFinalizers())
	obj.SetManagedFields(old.GetManagedFields())
	obj.SetResourceVersion(old.GetResourceVersion())
	obj.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
	return equality.Semantic.DeepEqual(obj, old)
}
