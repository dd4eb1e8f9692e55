package rbac

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
)

// Authorizer allows what roles allow and has no opinion on anything else. It may be used while Follow runs.
type Authorizer struct {
	index   atomic.Pointer[index]
	loaded  chan struct{}                 // closed when index is whole for the first time
	changed atomic.Pointer[chan struct{}] // closed when index has been replaced
	log     *slog.Logger
}

// New returns an authorizer that knows no role. A nil logger discards.
func New(logger *slog.Logger) *Authorizer {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	a := &Authorizer{loaded: make(chan struct{}), log: logger}
	changed := make(chan struct{})
	a.changed.Store(&changed)
	a.index.Store(&index{})
	return a
}

// publish puts an index into force.
func (a *Authorizer) publish(x *index) {
	a.index.Store(x)
	next := make(chan struct{})
	close(*a.changed.Swap(&next))
}

// WaitBound waits until bindings, and the roles they refer to, are known. Those of the cluster have no namespace.
func (a *Authorizer) WaitBound(ctx context.Context, bindings []types.NamespacedName) error {
	for _, name := range bindings {
		for {
			changed := *a.changed.Load()
			x := a.index.Load()
			if b, ok := x.bindings.get(bindingKey{name.Namespace, name.Name}); ok {
				if _, ok := x.roles.get(b.role()); ok {
					break
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return fmt.Errorf("wait for binding %s: %w", name, context.Cause(ctx))
			}
		}
	}
	return nil
}

// HasClusterRoles says whether there is any role of the cluster.
func (a *Authorizer) HasClusterRoles() bool {
	for _, part := range a.index.Load().roles.parts {
		for key := range part {
			if key.namespace == "" {
				return true
			}
		}
	}
	return false
}

// Authorize implements [authz.Authorizer]. allowed false means no opinion; the reason then names roles that bindings of the
// caller refer to and that do not exist. It allocates nothing when it allows.
func (a *Authorizer) Authorize(_ context.Context, attr *authz.Attributes) (allowed bool, reason string, err error) {
	q := askOf(attr)
	x := a.index.Load()
	var missing []error
	x.visit(attr.User, attr.Namespace, func(h *held) bool {
		r, ok := x.roles.get(h.role)
		if !ok {
			missing = append(missing, h.missing())
			return true
		}
		if r.allows(&q) {
			allowed, reason = true, h.reason
		}
		return !allowed
	})
	if !allowed && len(missing) > 0 {
		reason = fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(missing))
	}
	return allowed, reason, nil
}

// visit calls fn for every role that a user holds in the cluster or, if namespace is not empty, there, until it returns false.
func (x *index) visit(user *authn.User, namespace string, fn func(*held) bool) {
	own, _ := x.users.get(subject(user.Name))
	if !visitAll(own.inCluster(), fn) {
		return
	}
	for _, name := range user.Groups {
		group, _ := x.groups.get(subject(name))
		if !visitAll(group.inCluster(), fn) {
			return
		}
	}
	if namespace == "" || !visitAll(own.in(namespace), fn) {
		return
	}
	for _, name := range user.Groups {
		group, _ := x.groups.get(subject(name))
		if !visitAll(group.in(namespace), fn) {
			return
		}
	}
}

func visitAll(list []held, fn func(*held) bool) bool {
	for i := range list {
		if !fn(&list[i]) {
			return false
		}
	}
	return true
}

func (h *holder) inCluster() []held {
	if h == nil {
		return nil
	}
	return h.cluster
}

func (h *holder) in(namespace string) []held {
	if h == nil {
		return nil
	}
	return h.namespaces[namespace]
}

func (h *held) missing() error {
	resource := rbacv1.Resource("clusterroles")
	if h.ref.Kind == "Role" {
		resource = rbacv1.Resource("roles")
	}
	return apierrors.NewNotFound(resource, h.ref.Name)
}

// PolicyRules returns the rules of all roles that a user holds in the cluster and, if namespace is not empty, there. The error
// names roles that bindings refer to and that do not exist.
func (a *Authorizer) PolicyRules(user *authn.User, namespace string) ([]rbacv1.PolicyRule, error) {
	x := a.index.Load()
	var rules []rbacv1.PolicyRule
	var missing []error
	x.visit(user, namespace, func(h *held) bool {
		if r, ok := x.roles.get(h.role); ok {
			rules = append(rules, r.rules...)
		} else {
			missing = append(missing, h.missing())
		}
		return true
	})
	return rules, utilerrors.NewAggregate(missing)
}

// RulesFor implements [authz.RuleResolver].
func (a *Authorizer) RulesFor(_ context.Context, user *authn.User, namespace string) (authz.Rules, error) {
	rules, err := a.PolicyRules(user, namespace)
	var out authz.Rules
	for i := range rules {
		rule := &rules[i]
		if len(rule.Resources) > 0 {
			out.Resource = append(out.Resource, authorizationv1.ResourceRule{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			out.NonResource = append(out.NonResource, authorizationv1.NonResourceRule{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
		}
	}
	return out, err
}
