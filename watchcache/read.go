package watchcache

import (
	"context"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Freshness says which content a read asks for. The zero value is Consistent.
type Freshness struct {
	kind freshnessKind
	rev  int64
}

type freshnessKind uint8

const (
	consistent freshnessKind = iota
	anyRevision
	notOlderThan
	exactly
)

// Consistent asks for content with every write that was acknowledged before the read.
func Consistent() Freshness { return Freshness{} }

// Any asks for whatever is there.
func Any() Freshness { return Freshness{kind: anyRevision} }

// NotOlderThan asks for content at revision rev or later.
func NotOlderThan(rev int64) Freshness { return Freshness{notOlderThan, rev} }

// Exactly asks for the content at revision rev.
func Exactly(rev int64) Freshness { return Freshness{exactly, rev} }

func (f Freshness) String() string {
	switch f.kind {
	case anyRevision:
		return "any"
	case notOlderThan:
		return fmt.Sprintf("not older than %d", f.rev)
	case exactly:
		return fmt.Sprintf("exactly %d", f.rev)
	}
	return "consistent"
}

// Read returns the content that f asks for, and waits for the feed when it has to. It fails with ErrNotReady, with ErrRemoved, with
// ErrAhead when the feed does not come to the revision within 3 s, and with ErrExpired when an exact revision has left
// the window.
func (c *Cache) Read(ctx context.Context, f Freshness) (*Snapshot, error) {
	if c.current.Load() == nil || !c.server.Ready() {
		return nil, c.absent()
	}
	if f.kind != anyRevision {
		if err := c.wait(ctx, f); err != nil {
			return nil, err
		}
	}
	if f.kind == exactly {
		return c.SnapshotAt(f.rev)
	}
	s := c.Snapshot()
	if s.rev == 0 {
		return nil, c.absent() // removed while it waited
	}
	return s, nil
}

// wait returns when the cache is as fresh as f asks.
func (c *Cache) wait(ctx context.Context, f Freshness) (err error) {
	rev := f.rev
	if f.kind == consistent {
		defer func() { c.metrics.consistent[err == nil].Inc() }()
		if rev, err = c.server.storeRevision(ctx); err != nil {
			return err
		}
	}
	start := time.Now()
	defer func() { c.metrics.readWait.Observe(time.Since(start).Seconds()) }()
	return c.server.WaitFresh(ctx, rev)
}

// ListFreshness maps the parameters of a list that is not a continuation to what it reads. They must be valid
// together. whole says that a limit has to be ignored. An error is that of an unparsable resource version.
func ListFreshness(resourceVersion string, match metav1.ResourceVersionMatch, limit int64) (f Freshness, whole bool, err error) {
	rev, err := ParseResourceVersion(resourceVersion)
	switch {
	case err != nil:
		return f, false, err
	case resourceVersion == "":
		return Consistent(), false, nil
	case rev == 0:
		return Any(), true, nil
	case match == metav1.ResourceVersionMatchExact, match == "" && limit > 0:
		return Exactly(rev), false, nil
	}
	return NotOlderThan(rev), false, nil
}

// ContinueFreshness maps the revision in a continue token to what the page reads: -1 stands for the newest revision, to
// which further pages then keep.
func ContinueFreshness(tokenRev int64) Freshness {
	if tokenRev < 0 {
		return Consistent()
	}
	return Exactly(tokenRev)
}

// WatchFreshness maps the parameters of a watch to its start. With initial, the watch begins with the objects of a
// snapshot read at f; without it, behind the revision of such a snapshot or, when f is exact, behind that
// revision, which need not have been reached (Revision says it).
func WatchFreshness(resourceVersion string, sendInitialEvents *bool) (f Freshness, initial bool, err error) {
	rev, err := ParseResourceVersion(resourceVersion)
	if err != nil {
		return f, false, err
	}
	initial = sendInitialEvents == nil && rev == 0 || sendInitialEvents != nil && *sendInitialEvents
	switch {
	case resourceVersion == "":
		return Consistent(), initial, nil
	case rev == 0:
		return Any(), initial, nil
	case initial:
		return NotOlderThan(rev), initial, nil
	}
	return Exactly(rev), false, nil
}

// StartWatch starts a watch at what WatchFreshness has returned: it reads the snapshot that is needed and fills in
// Initial or After of o. It fails as Read and Watch do.
func (c *Cache) StartWatch(ctx context.Context, f Freshness, initial bool, o WatchOptions) (*Cursor, error) {
	if f.kind == exactly && !initial {
		o.Initial, o.After = nil, f.rev
		return c.Watch(o)
	}
	s, err := c.Read(ctx, f)
	if err != nil {
		return nil, err
	}
	o.Initial, o.After = nil, s.rev
	if initial {
		o.Initial = s
	}
	return c.Watch(o)
}

// ParseResourceVersion reads a resource version as clients send it; "" is 0. Those above the largest revision, which the
// API permits, become that one.
func ParseResourceVersion(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	rev, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("invalid resource version: resourceVersion: Invalid value: %q: %w", s, err)
	}
	return int64(min(rev, 1<<63-1)), nil
}
