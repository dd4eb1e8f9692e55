package write

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/store"
)

const modified = "the object has been modified; please apply your changes to the latest version and try again"

// toStatus is the one place where what went wrong below becomes what a client sees. Statuses pass through.
func toStatus(err error, gr schema.GroupResource, name, verb string) error {
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) {
		return err
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return apierrors.NewNotFound(gr, name)
	case errors.Is(err, store.ErrExists):
		return apierrors.NewAlreadyExists(gr, name)
	case errors.Is(err, store.ErrConflict):
		return apierrors.NewConflict(gr, name, errors.New(modified))
	case errors.Is(err, store.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(store.ErrTooLarge.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	case errors.Is(err, store.ErrNoSpace):
		return insufficientStorage(gr, name, verb)
	case errors.Is(err, store.ErrUnavailable):
		return apierrors.NewServerTimeout(gr, verb, 2)
	default:
		return apierrors.NewInternalError(err)
	}
}

// ReasonInsufficientStorage is the reason of a 507. Upstream has none: there the same error of etcd is a 500.
const ReasonInsufficientStorage metav1.StatusReason = "InsufficientStorage"

// insufficientStorage is the Status of a write for which etcd has no space.
func insufficientStorage(gr schema.GroupResource, name, verb string) error {
	what := gr.String()
	if name != "" {
		what = fmt.Sprintf("%s %q", what, name)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure,
		Code:   http.StatusInsufficientStorage,
		Reason: ReasonInsufficientStorage,
		Message: fmt.Sprintf("cannot %s %s: no space is left where the cluster keeps its objects; "+
			"delete objects that are not needed, or free space on the disk of etcd", verb, what),
		Details: &metav1.StatusDetails{Name: name, Group: gr.Group, Kind: gr.Resource, RetryAfterSeconds: 1},
	}}
}

// versionOnCreate is the Status of a create whose object has a resource version. Upstream's storage gives the error no code,
// and the handler makes it a 500 without a reason.
func versionOnCreate() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Message: "resourceVersion should not be set on objects to be created",
	}}
}

// generateNameConflict is the Status of a create for which no free name was found.
func generateNameConflict(gr schema.GroupResource, name string) error {
	return apierrors.NewGenerateNameConflict(gr, name, 1)
}

// beingDeleted says in an AlreadyExists Status that the name will be free soon.
func beingDeleted(err error) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		status.ErrStatus.Message = "object is being deleted: " + status.ErrStatus.Message
	}
	return err
}

// uidConflict is the Conflict of an update that names another incarnation of the object.
func uidConflict(gr schema.GroupResource, name string, want, have metav1.Object) error {
	uid := ""
	if have != nil {
		uid = string(have.GetUID())
	}
	return apierrors.NewConflict(gr, name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", want.GetUID(), uid))
}
