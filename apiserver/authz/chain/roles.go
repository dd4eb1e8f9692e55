package chain

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/watchcache"
)

// RoleRules returns the rules of the role that a binding in namespace (empty for a ClusterRoleBinding) refers to, as etcd has it
// now. The error is a NotFound Status when there is no such role.
func (c *Chain) RoleRules(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	resource, cache, name := rbacv1.Resource("clusterroles"), c.caches.ClusterRoles, ref.Name
	if ref.Kind == "Role" {
		resource, cache, name = rbacv1.Resource("roles"), c.caches.Roles, namespace+"/"+ref.Name
	}
	snapshot, err := cache.Read(ctx, watchcache.Consistent())
	if err != nil {
		return nil, fmt.Errorf("find %s %s: %w", resource, ref.Name, err)
	}
	version, ok := snapshot.Get(cache.Resource().Prefix + name)
	if !ok {
		return nil, apierrors.NewNotFound(resource, ref.Name)
	}
	obj, err := version.Decode()
	if err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", resource, ref.Name, err)
	}
	switch role := obj.(type) {
	case *rbacv1.Role:
		return role.Rules, nil
	case *rbacv1.ClusterRole:
		return role.Rules, nil
	}
	return nil, fmt.Errorf("decode %s %s: it is a %T", resource, ref.Name, obj)
}
