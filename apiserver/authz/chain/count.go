package chain

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
)

// counted counts what an authorizer decides.
type counted struct {
	authz.Authorizer
	name            string
	allowed, denied prometheus.Counter
}

func (c *Chain) count(r row, a authz.Authorizer) *counted {
	return &counted{
		Authorizer: a, name: r.name,
		allowed: c.decisions.WithLabelValues(r.mode, r.name, "allowed"), denied: c.decisions.WithLabelValues(r.mode, r.name, "denied"),
	}
}

// Decide implements [authz.Decider].
func (c *counted) Decide(ctx context.Context, attr *authz.Attributes) (authz.Decision, string, error) {
	decision, reason, err := authz.Decide(ctx, c.Authorizer, attr)
	switch decision {
	case authz.Allow:
		c.allowed.Inc()
	case authz.Deny:
		c.denied.Inc()
	}
	return decision, reason, err
}

// RulesFor implements [authz.RuleResolver].
func (c *counted) RulesFor(ctx context.Context, user *authn.User, namespace string) (authz.Rules, error) {
	if resolver, ok := c.Authorizer.(authz.RuleResolver); ok {
		return resolver.RulesFor(ctx, user, namespace)
	}
	return authz.Rules{}, fmt.Errorf("%s authorizer does not support user rule resolution", c.name)
}
