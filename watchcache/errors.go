package watchcache

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotReady says that the cache has not been loaded yet (429 on the wire, "storage is (re)initializing").
var ErrNotReady = errors.New("watch cache is not loaded yet")

// ErrRemoved says that the cache has been taken out of service: its resource is not served any more (404 on the wire; watches end).
var ErrRemoved = errors.New("resource is not served any more")

// ErrExpired says that a revision or a cursor has left the window (410 on the wire). The error that carries it is an
// *ExpiredError.
var ErrExpired = errors.New("resource version too old")

// ErrAhead says that the feed did not come as far as was asked within 3 s (504 with cause ResourceVersionTooLarge on
// the wire). The error that carries it is an *AheadError.
var ErrAhead = errors.New("resource version too large")

// ErrBroken says that stored bytes could not be read as an object (500 InternalError on the wire). The error that
// carries it is a *BrokenError.
var ErrBroken = errors.New("stored object cannot be read")

// ExpiredError says what was asked for and the oldest revision that would have worked.
type ExpiredError struct{ Requested, Oldest int64 }

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("too old resource version: %d (%d)", e.Requested, e.Oldest)
}
func (e *ExpiredError) Unwrap() error { return ErrExpired }

// AheadError says what was asked for and how far the feed is.
type AheadError struct{ Requested, Current int64 }

func (e *AheadError) Error() string {
	return fmt.Sprintf("Too large resource version: %d, current: %d", e.Requested, e.Current)
}
func (e *AheadError) Unwrap() error { return ErrAhead }

// BrokenError names the keys whose stored bytes cannot be read, in key order, and the reason for the first.
type BrokenError struct {
	Keys  []string
	Cause error
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("%v: %s: %v", ErrBroken, strings.Join(e.Keys, ", "), e.Cause)
}
func (e *BrokenError) Unwrap() []error { return []error{ErrBroken, e.Cause} }
