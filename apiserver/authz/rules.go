package authz

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"

	"vigil/apiserver/authn"
)

// Rules are what a user may do in one namespace, cluster-wide rights included.
type Rules struct {
	Resource    []authorizationv1.ResourceRule
	NonResource []authorizationv1.NonResourceRule
	Incomplete  bool // there may be more that cannot be listed
}

// RuleResolver is an [Authorizer] that can list what it would allow.
type RuleResolver interface {
	// RulesFor returns what it found out, also with an error.
	RulesFor(ctx context.Context, user *authn.User, namespace string) (Rules, error)
}
