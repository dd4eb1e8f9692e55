package store

import "errors"

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

// ErrTooLarge says that etcd refused the request for its size.
var ErrTooLarge = errors.New("value too large")

// ErrUnavailable says that etcd cannot answer now (no leader, no quorum, no space, timeout); a retry may help.
var ErrUnavailable = errors.New("etcd unavailable")

// ConflictError carries what the key holds instead of the expected version. Found is false when it is gone.
type ConflictError struct {
	Current KV
	Found   bool
}

func (e *ConflictError) Error() string { return ErrConflict.Error() + ": " + e.Current.Key }
func (e *ConflictError) Unwrap() error { return ErrConflict }
