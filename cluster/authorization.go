package cluster

import (
	"context"
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver"
	"vigil/apiserver/authz/chain"
	"vigil/apiserver/authz/escalation"
	"vigil/apiserver/authz/node"
	"vigil/apiserver/authz/rbac"
	"vigil/apiserver/bootstrap"
	"vigil/apiserver/write"
	"vigil/kinds"
	"vigil/watchcache"
)

// AuthorizationConfig says who decides what callers may do.
type AuthorizationConfig = chain.Config

// attachAuthorization gives the authorizers the caches of the server.
func attachAuthorization(c *chain.Chain, server *apiserver.Server, table *kinds.Table, prefix string) {
	cache := func(resource schema.GroupVersionResource) *watchcache.Cache {
		if kind := table.ByResource(resource); kind != nil {
			return server.Cache(kind)
		}
		return nil
	}
	roles := func(resource string) *watchcache.Cache {
		return cache(rbacv1.SchemeGroupVersion.WithResource(resource))
	}
	core := func(resource string) *watchcache.Cache {
		return cache(schema.GroupVersionResource{Version: "v1", Resource: resource})
	}
	c.Attach(rbac.Caches{
		Roles: roles("roles"), ClusterRoles: roles("clusterroles"), RoleBindings: roles("rolebindings"), ClusterRoleBindings: roles("clusterrolebindings"),
	}, node.Caches{
		Pods: core("pods"), PersistentVolumeClaims: core("persistentvolumeclaims"), PersistentVolumes: core("persistentvolumes"),
		VolumeAttachments: cache(schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "volumeattachments"}),
		ResourceSlices:    cache(schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceslices"}),
		Prefix:            prefix,
	})
}

// rolesHook makes the roles and bindings that every cluster starts with. own is set by the time that it runs.
func rolesHook(c *chain.Chain, own **bootstrap.Bootstrap) apiserver.StartHook {
	return apiserver.StartHook{
		Name: "rbac/bootstrap-roles",
		Run: func(ctx context.Context, _ *apiserver.Server) error {
			bindings, err := (*own).EnsureRoles(ctx)
			if err != nil {
				return err
			}
			return c.Seeded(ctx, bindings)
		},
	}
}

// guarded adds the hooks that keep people from giving out what they do not have.
func guarded(c *chain.Chain, hooks map[schema.GroupResource]write.Hook) map[schema.GroupResource]write.Hook {
	maps.Copy(hooks, escalation.Hooks(escalation.Config{Authorizer: c, Held: c.RBAC().PolicyRules, Role: c.RoleRules}))
	return hooks
}
