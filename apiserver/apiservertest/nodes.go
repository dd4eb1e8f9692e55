package apiservertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver"
	"vigil/apiserver/authz/chain"
	"vigil/apiserver/authz/node"
	"vigil/apiserver/authz/rbac"
	"vigil/pki"
	"vigil/watchcache"
)

// StartForNodes starts a server at which nodes may do what the Node authorizer lets them, administrators everything, and others nothing;
// and which issues service accounts' tokens. The client of a node is Client("system:node:NAME", "system:nodes").
func StartForNodes(t testing.TB, options ...Option) *Server {
	t.Helper()
	c, err := chain.New(chain.Config{Modes: []string{"Node"}})
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.NewAuthority("service-accounts", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pem, err := key.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sa.key")
	if err := os.WriteFile(path, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	options = append([]Option{func(config *apiserver.Config) {
		config.Authorizer, config.Tokens.SigningKeyFile = c, path
	}}, options...)
	s := Prepare(t, options...)
	cache := func(group, version, resource string) *watchcache.Cache {
		return s.Cache(s.Table.ByResource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}))
	}
	c.Attach(rbac.Caches{
		Roles: cache(rbacv1.GroupName, "v1", "roles"), ClusterRoles: cache(rbacv1.GroupName, "v1", "clusterroles"),
		RoleBindings: cache(rbacv1.GroupName, "v1", "rolebindings"), ClusterRoleBindings: cache(rbacv1.GroupName, "v1", "clusterrolebindings"),
	}, node.Caches{
		Pods: cache("", "v1", "pods"), PersistentVolumeClaims: cache("", "v1", "persistentvolumeclaims"),
		PersistentVolumes: cache("", "v1", "persistentvolumes"), VolumeAttachments: cache("storage.k8s.io", "v1", "volumeattachments"),
		Prefix: s.Store.Prefix(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("authorizers: %v", err)
		}
	})
	s.Begin()
	if err := c.Seeded(ctx, nil); err != nil {
		t.Fatal(err)
	}
	return s
}
