package authz

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Forbidden is the 403 Status for a refused request, with upstream's text.
func Forbidden(attr *Attributes, reason string) error {
	text := escape.Replace(denial(attr))
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: attr.Group, Resource: attr.Resource}, attr.Name, errors.New(text))
}

// denial says who may not do what: User "x" cannot list resource "pods" in API group "" in the namespace "default".
func denial(attr *Attributes) string {
	user := attr.User.Name
	if attr.Resource == "" {
		return fmt.Sprintf("User %q cannot %s path %q", user, attr.Verb, attr.Path)
	}
	resource := attr.Resource
	if attr.Subresource != "" {
		resource += "/" + attr.Subresource
	}
	if attr.Namespace == "" {
		return fmt.Sprintf("User %q cannot %s resource %q in API group %q at the cluster scope", user, attr.Verb, resource, attr.Group)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q in the namespace %q", user, attr.Verb, resource, attr.Group, attr.Namespace)
}

// Undecided is the Status for a request that could not be decided: err itself if it is one, else an internal error.
func Undecided(err error) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return err
	}
	return apierrors.NewInternalError(err)
}
