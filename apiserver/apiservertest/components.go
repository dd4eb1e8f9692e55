package apiservertest

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
)

// components is who may do something at the servers of tests that are not about access: administrators (group system:masters) and
// the cluster's own components everything, all others nothing but the public paths.
type components struct{}

var (
	componentNames = []string{"system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy", "system:apiserver"}
	publicPaths    = []string{"/healthz", "/livez", "/readyz", "/version", "/version/"}
)

// Authorize implements [authz.Authorizer].
func (components) Authorize(_ context.Context, attr *authz.Attributes) (bool, string, error) {
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

// RulesFor implements [authz.RuleResolver].
func (c components) RulesFor(ctx context.Context, user *authn.User, _ string) (authz.Rules, error) {
	allowed, _, err := c.Authorize(ctx, &authz.Attributes{User: user})
	if !allowed {
		return authz.Rules{}, err
	}
	all := []string{"*"}
	return authz.Rules{
		Resource:    []authorizationv1.ResourceRule{{Verbs: all, APIGroups: all, Resources: all}},
		NonResource: []authorizationv1.NonResourceRule{{Verbs: all, NonResourceURLs: all}},
	}, nil
}
