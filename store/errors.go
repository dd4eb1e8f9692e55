package store

import (
	"errors"
	"fmt"
)

// ErrNotFound says that there is no value at the key.
var ErrNotFound = errors.New("key not found")

// ErrExists says that a create found a value at the key.
var ErrExists = errors.New("key exists")

// ErrConflict says that the compare of an update or delete failed. The error that carries it is a *ConflictError.
var ErrConflict = errors.New("key changed")

// ErrCompacted says that the revision asked for is older than etcd's history (410 on the wire).
var ErrCompacted = errors.New("revision compacted")

// ErrFutureRevision says that the revision asked for has not happened yet.
var ErrFutureRevision = errors.New("revision in the future")

// ErrTooLarge says that the request is larger than etcd takes (1.5 MiB unless set otherwise). Nothing was written.
var ErrTooLarge = errors.New("etcd request is too large")

// ErrUnavailable says that etcd cannot answer now (no leader, no quorum, timeout); a retry may help.
var ErrUnavailable = errors.New("etcd unavailable")

// ErrNoSpace is the ErrUnavailable of a write for which there is no space: etcd's disk is full, or its database has reached its quota.
// Of the latter kind the first one may have been written: it is an ErrUncertain too. Reads go on, and so do deletes as long as they can.
var ErrNoSpace = fmt.Errorf("%w: no space is left", ErrUnavailable)

// ErrUncertain is the ErrUnavailable (or the end of the context) of a write that may have happened or not.
var ErrUncertain = fmt.Errorf("%w: the write may or may not have happened", ErrUnavailable)

// ConflictError carries what the key holds instead of the expected version. Found is false when it is gone.
type ConflictError struct {
	Current KV // Key is always set
	Found   bool
}

func (e *ConflictError) Error() string { return ErrConflict.Error() + ": " + e.Current.Key }
func (e *ConflictError) Unwrap() error { return ErrConflict }
