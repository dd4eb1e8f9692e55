package store

import (
	"context"
	"sync"
)

// Revision returns etcd's current revision, linearizably: every write acknowledged before the call is in it.
// Callers share round trips, but never one that began before they called.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	if s.engine.cheapRevision() {
		return s.engine.revision(ctx)
	}
	return s.reads.do(ctx, s)
}

// sharedRead runs one round trip at a time. Who comes while one is under way joins the next.
type sharedRead struct {
	mu      sync.Mutex
	running bool      // a goroutine is in run
	next    *readCall // those who wait for the round trip that has not begun
}

type readCall struct {
	done chan struct{}
	rev  int64
	err  error
}

func (r *sharedRead) do(ctx context.Context, s *Store) (int64, error) {
	r.mu.Lock()
	if s.ctx.Err() != nil {
		r.mu.Unlock()
		return 0, ErrUnavailable
	}
	if r.next == nil {
		r.next = &readCall{done: make(chan struct{})}
	}
	call := r.next
	if !r.running {
		r.running = true
		s.wg.Go(func() { r.run(s.ctx, s.engine) })
	}
	r.mu.Unlock()
	select {
	case <-call.done:
		return call.rev, call.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// run makes round trips until nobody waits. It belongs to the store, not to one caller, whose end must not fail the
// others.
func (r *sharedRead) run(ctx context.Context, e engine) {
	for {
		r.mu.Lock()
		call := r.next
		r.next = nil
		if call == nil {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		call.rev, call.err = e.revision(ctx)
		close(call.done)
	}
}
