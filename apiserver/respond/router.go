package respond

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NoMethod is the Status that upstream's router gives where a path has no route for the request's method (405).
func NoMethod() error { return unrouted(http.StatusMethodNotAllowed) }

// NoRoute is the Status that upstream's router gives where a group version has no route for a path (404).
func NoRoute() error { return unrouted(http.StatusNotFound) }

// unrouted is a Status about no resource: the router knows none.
func unrouted(code int) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, false)
}
