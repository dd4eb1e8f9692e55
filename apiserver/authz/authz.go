// Package authz decides what a caller may do. [Authorizer] is the door, and [Union] asks several of them one after the other; which
// there are is put together in package chain. [Components] is the policy of a server without RBAC: administrators (group
// system:masters) and the cluster's own components may do everything, nobody else anything.
package authz

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"vigil/apiserver/authn"
)

// Attributes are what a decision is made on. For non-resource requests Resource is empty and Path is set.
type Attributes struct {
	User                                  *authn.User
	Verb                                  string
	Group, Version, Resource, Subresource string
	Namespace, Name                       string
	Path                                  string

	// Fields and Labels are what a list, watch or deletecollection selects; nil: everything.
	Fields fields.Selector
	Labels labels.Selector
}

// Authorizer decides. allowed false comes with a reason that is shown to the caller, possibly empty; an error means
// that no decision could be made and is reported as an internal error. It is called for every request from many
// goroutines and must not keep attr.
type Authorizer interface {
	Authorize(ctx context.Context, attr *Attributes) (allowed bool, reason string, err error)
}

// Components lets in group system:masters and the identities that the cluster's own components have.
type Components struct{}

var componentNames = []string{"system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy", "system:apiserver"}

// Authorize implements [Authorizer].
func (Components) Authorize(_ context.Context, attr *Attributes) (bool, string, error) {
	u := attr.User
	switch {
	case u.InGroup(authn.GroupMasters):
		return true, "", nil
	case slices.Contains(componentNames, u.Name):
		return true, "", nil
	case strings.HasPrefix(u.Name, "system:node:") && u.InGroup(authn.GroupNodes):
		return true, "", nil
	case attr.Resource == "" && attr.Verb == "get" && slices.Contains(publicPaths, attr.Path):
		return true, "", nil
	}
	return false, "", nil
}

// publicPaths are what everybody may read: probes and the version (upstream's ClusterRole system:public-info-viewer).
var publicPaths = []string{"/healthz", "/livez", "/readyz", "/version", "/version/"}
