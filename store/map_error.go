package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mapError turns what etcd or gRPC returned into this package's sentinels, with the original text behind it.
// The end of the caller's own context stays what it is, whatever gRPC made of it.
func mapError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	switch err = rpctypes.Error(err); {
	case errors.Is(err, rpctypes.ErrCompacted):
		return ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return ErrFutureRevision
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return ErrTooLarge
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: %w", ErrNoSpace, err) // the write that fills the quota happens, and fails nevertheless
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return &certainError{err}
	}
	switch code := codeOf(err); code {
	case codes.ResourceExhausted: // a message beyond gRPC's own limits, refused before it was looked at
		return fmt.Errorf("%w: %s", ErrTooLarge, err)
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.NotFound, codes.FailedPrecondition, codes.Unimplemented:
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// noteNoSpace sets noSpace when err says that etcd has no space, and returns err.
func noteNoSpace(noSpace *atomic.Bool, err error) error {
	if errors.Is(err, ErrNoSpace) {
		noSpace.Store(true)
	}
	return err
}

// certainError is an ErrUnavailable that came before a write was attempted.
type certainError struct{ err error }

func (e *certainError) Error() string {
	if errors.Is(e.err, ErrUnavailable) {
		return e.err.Error()
	}
	return ErrUnavailable.Error() + ": " + e.err.Error()
}

func (e *certainError) Is(target error) bool { return target == ErrUnavailable }
func (e *certainError) Unwrap() error        { return e.err }

// writeError is err as the outcome of a write: uncertain unless it is known that nothing happened.
func writeError(err error) error {
	var certain *certainError
	switch {
	case err == nil || errors.As(err, &certain):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrUnavailable):
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return err
}

func codeOf(err error) codes.Code {
	var etcd rpctypes.EtcdError
	if errors.As(err, &etcd) {
		return etcd.Code()
	}
	return status.Code(err)
}
