package watchcache

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// freshTimeout is how long a read waits for the feed: kube-apiserver's 3 s.
const freshTimeout = 3 * time.Second

// progressDelays are the pauses before a waiting read asks the feed for its progress: revisions outside the prefix make no
// events, so the feed would not mention them. The last one repeats.
var progressDelays = [...]time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}

// freshness knows who waits for a revision.
type freshness struct {
	waiters atomic.Int32 // len(waiting), to publish without a lock when nobody waits

	mu      sync.Mutex
	waiting []freshWaiter
	asked   time.Time // when progress was last requested
}

type freshWaiter struct {
	rev   int64
	ready chan struct{}
}

// arrived tells those who wait for rev or less. The revision must have been published before.
func (f *freshness) arrived(rev int64) {
	if f.waiters.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = slices.DeleteFunc(f.waiting, func(w freshWaiter) bool {
		if w.rev > rev {
			return false
		}
		close(w.ready)
		return true
	})
	f.waiters.Store(int32(len(f.waiting)))
}

func (f *freshness) add(rev int64) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	ready := make(chan struct{})
	f.waiting = append(f.waiting, freshWaiter{rev, ready})
	f.waiters.Store(int32(len(f.waiting)))
	return ready
}

func (f *freshness) remove(ready chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = slices.DeleteFunc(f.waiting, func(w freshWaiter) bool { return w.ready == ready })
	f.waiters.Store(int32(len(f.waiting)))
}

// mayAsk reports whether a request for progress is due, so that many waiters make no more of them than one.
func (f *freshness) mayAsk(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.asked) < progressDelays[0] {
		return false
	}
	f.asked = now
	return true
}

// Revision returns the revision up to which all caches are complete.
func (s *Server) Revision() int64 { return s.rev.Load() }

// WaitFresh returns when all caches are complete up to revision rev. It fails with ErrAhead when that takes longer
// than 3 s, and with the cause of ctx's end.
func (s *Server) WaitFresh(ctx context.Context, rev int64) error {
	if s.rev.Load() >= rev {
		return nil
	}
	ready := s.fresh.add(rev)
	defer s.fresh.remove(ready)
	if s.rev.Load() >= rev { // published between the look and add
		return nil
	}
	timeout := time.NewTimer(freshTimeout)
	defer timeout.Stop()
	tick := time.NewTimer(progressDelays[0])
	defer tick.Stop()
	for asked := 0; ; {
		select {
		case <-ready:
			return nil
		case <-tick.C:
			if s.fresh.mayAsk(time.Now()) {
				// A failure changes nothing here: the feed may come without it, or the wait ends in time.
				_ = s.store.RequestProgress(ctx)
			}
			asked = min(asked+1, len(progressDelays)-1)
			tick.Reset(progressDelays[asked])
		case <-timeout.C:
			return &AheadError{Requested: rev, Current: s.rev.Load()}
		case <-ctx.Done():
			return fmt.Errorf("wait for revision %d: %w", rev, context.Cause(ctx))
		}
	}
}

// Consistent returns the store's revision, linearizably, when all caches are complete up to it: what is read
// from them then has every write that was acknowledged before the call.
func (s *Server) Consistent(ctx context.Context) (rev int64, err error) {
	if rev, err = s.storeRevision(ctx); err != nil {
		return 0, err
	}
	return rev, s.WaitFresh(ctx, rev)
}

func (s *Server) storeRevision(ctx context.Context) (int64, error) {
	rev, err := s.store.Revision(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the store's revision: %w", err)
	}
	return rev, nil
}
