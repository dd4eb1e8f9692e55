package authz

import (
	"context"
	"fmt"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"vigil/apiserver/authn"
)

// Decision is what one authorizer of several says.
type Decision int8

// What an authorizer says: others are asked only if it has no opinion.
const (
	NoOpinion Decision = iota
	Allow
	Deny
)

// Decider is an [Authorizer] that can forbid what others would allow. For those that cannot, not to allow is to have no opinion.
type Decider interface {
	Decide(ctx context.Context, attr *Attributes) (decision Decision, reason string, err error)
}

// Decide asks an authorizer for its decision. An error comes with what the authorizer decides in spite of it.
func Decide(ctx context.Context, a Authorizer, attr *Attributes) (Decision, string, error) {
	if d, ok := a.(Decider); ok {
		return d.Decide(ctx, attr)
	}
	allowed, reason, err := a.Authorize(ctx, attr)
	if allowed {
		return Allow, reason, err
	}
	return NoOpinion, reason, err
}

// Union asks its members in order until one decides. When none does, the reasons of all are given, one a line, each behind the
// name of its member.
type Union []Member

// Member is one authorizer of a [Union].
type Member struct {
	Name string
	Authorizer
}

// Decide implements [Decider].
func (u Union) Decide(ctx context.Context, attr *Attributes) (Decision, string, error) {
	var reasons []string
	var errs []error
	for i := range u {
		decision, reason, err := Decide(ctx, u[i].Authorizer, attr)
		if decision != NoOpinion {
			return decision, reason, err
		}
		if reason != "" {
			reasons = append(reasons, u[i].Name+": "+reason)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return NoOpinion, strings.Join(reasons, "\n"), aggregate(errs)
}

// aggregate leaves a single error as it is, so that an APIStatus remains one.
func aggregate(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return utilerrors.NewAggregate(errs)
}

// Authorize implements [Authorizer].
func (u Union) Authorize(ctx context.Context, attr *Attributes) (allowed bool, reason string, err error) {
	decision, reason, err := u.Decide(ctx, attr)
	return decision == Allow, reason, err
}

// RulesFor implements [RuleResolver] with the rules of all members. Those of a member that cannot list its rules are missing.
func (u Union) RulesFor(ctx context.Context, user *authn.User, namespace string) (Rules, error) {
	var all Rules
	var errs []error
	for _, member := range u {
		resolver, ok := member.Authorizer.(RuleResolver)
		if !ok {
			all.Incomplete = true
			errs = append(errs, fmt.Errorf("%s authorizer does not support user rule resolution", member.Name))
			continue
		}
		rules, err := resolver.RulesFor(ctx, user, namespace)
		if err != nil {
			errs = append(errs, err)
		}
		all.Resource = append(all.Resource, rules.Resource...)
		all.NonResource = append(all.NonResource, rules.NonResource...)
		all.Incomplete = all.Incomplete || rules.Incomplete
	}
	return all, aggregate(errs)
}
