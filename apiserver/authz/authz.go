// Package authz decides what a caller may do. [Authorizer] is the door, and [Union] asks several of them one after the other; which
// there are is put together in package chain.
package authz

import (
	"context"

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
