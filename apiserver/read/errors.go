package read

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver/respond"
	"vigil/store"
	"vigil/watchcache"
)

// Texts of 410s, as upstream has them.
const (
	listTooOld     = "The resourceVersion for the provided list is too old."
	continueTooOld = "The provided continue parameter is too old to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with " +
		"the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the " +
		"first chunk was returned and now may show up in the list."
)

// wireError turns what the cache says into what clients are told. expired is the text of a 410.
func wireError(err error, expired string) error {
	var ahead *watchcache.AheadError
	switch {
	case errors.Is(err, watchcache.ErrExpired):
		return apierrors.NewResourceExpired(expired)
	case errors.As(err, &ahead):
		return tooLarge(uint64(ahead.Requested), ahead.Current)
	case errors.Is(err, watchcache.ErrRemoved):
		return respond.NoRoute()
	case errors.Is(err, watchcache.ErrNotReady):
		return apierrors.NewTooManyRequests("storage is (re)initializing", 1)
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	case errors.Is(err, store.ErrUnavailable):
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusInternalServerError,
			Reason:  metav1.StatusReasonServerTimeout,
			Message: "The operation could not be completed at this time, please try again.",
			Details: &metav1.StatusDetails{RetryAfterSeconds: 1},
		}}
	}
	return apierrors.NewInternalError(err)
}

// tooLarge is the 504 for a version that the server has not reached in time.
func tooLarge(requested uint64, current int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", requested, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}
