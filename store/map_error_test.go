package store

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMapError(t *testing.T) {
	tests := []struct {
		err       error
		want      error // nil: none of the sentinels
		uncertain bool  // as the outcome of a write
	}{
		{rpctypes.ErrGRPCCompacted, ErrCompacted, false},
		{rpctypes.ErrGRPCFutureRev, ErrFutureRevision, false},
		{rpctypes.ErrGRPCRequestTooLarge, ErrTooLarge, false},
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max"), ErrTooLarge, false},
		{rpctypes.ErrGRPCNoSpace, ErrUnavailable, true},
		{rpctypes.ErrGRPCRequestTooManyRequests, ErrUnavailable, false},
		{rpctypes.ErrGRPCNoLeader, ErrUnavailable, true},
		{rpctypes.ErrGRPCTimeout, ErrUnavailable, true},
		{rpctypes.ErrGRPCTimeoutDueToLeaderFail, ErrUnavailable, true},
		{rpctypes.ErrGRPCLeaderChanged, ErrUnavailable, true},
		{rpctypes.ErrGRPCStopped, ErrUnavailable, true},
		{status.Error(codes.Unavailable, "error reading from server: EOF"), ErrUnavailable, true},
		{status.Error(codes.Internal, "stream terminated by RST_STREAM"), ErrUnavailable, true},
		{status.Error(codes.Unknown, "?"), ErrUnavailable, true},
		{context.DeadlineExceeded, ErrUnavailable, true}, // not the caller's own
		{rpctypes.ErrGRPCPermissionDenied, nil, false},
		{rpctypes.ErrGRPCLeaseNotFound, nil, false},
	}
	sentinels := []error{ErrCompacted, ErrFutureRevision, ErrTooLarge, ErrUnavailable}
	for _, test := range tests {
		got := mapError(t.Context(), test.err)
		for _, s := range sentinels {
			if errors.Is(got, s) != (s == test.want) {
				t.Errorf("%v becomes %v, want %v", test.err, got, test.want)
			}
		}
		if w := writeError(got); errors.Is(w, ErrUncertain) != test.uncertain || !errors.Is(w, got) {
			t.Errorf("%v of a write becomes %v, want uncertain %v", test.err, w, test.uncertain)
		}
	}
	if mapError(t.Context(), nil) != nil || writeError(nil) != nil {
		t.Error("an error out of nothing")
	}
	if err := mapError(t.Context(), rpctypes.ErrGRPCLeaseNotFound); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Errorf("lease not found is not known any more: %v", err)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := mapError(ended, status.Error(codes.Canceled, "")); err != context.Canceled {
		t.Errorf("after the caller's end: %v, want context.Canceled", err)
	}
	if err := writeError(mapError(ended, status.Error(codes.Canceled, ""))); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrUncertain) {
		t.Errorf("a write after the caller's end: %v", err)
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{
		"/registry/":    "/registry0",
		"/registry/a":   "/registry/b",
		"a\xff":         "b",
		"\xff\xff":      "\x00",
		"":              "\x00",
		"/registry\xfe": "/registry\xff",
	} {
		if got := string(prefixEnd(prefix)); got != want {
			t.Errorf("end of %q is %q, want %q", prefix, got, want)
		}
	}
}
