package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Feed calls fn with every change under the store's prefix after revision after, in revision order, each once, and
// with progress when etcd or RequestProgress has some. It returns when ctx ends, when fn fails (with fn's error), or
// with ErrCompacted when etcd no longer has what comes next. A broken connection it repairs by itself.
// fn is called from this goroutine; while it runs, what happens is collected for the next batch.
func (s *Store) Feed(ctx context.Context, after int64, fn func(Batch) error) error {
	f := &feed{store: s, rev: after, fn: fn, progress: make(chan struct{}, 1)}
	s.feedMu.Lock()
	s.feeds[f] = struct{}{}
	s.feedMu.Unlock()
	defer func() {
		s.feedMu.Lock()
		delete(s.feeds, f)
		s.feedMu.Unlock()
	}()
	return f.run(ctx)
}

// RequestProgress makes every running feed deliver a batch soon that says how far it is complete: at least to the
// revision at the time of the call. It does not wait for that. A feed that is broken or behind asks again by itself.
func (s *Store) RequestProgress(context.Context) error {
	s.feedMu.Lock()
	defer s.feedMu.Unlock()
	if len(s.feeds) == 0 {
		return errors.New("request progress: no feed is running")
	}
	for f := range s.feeds {
		select {
		case f.progress <- struct{}{}:
		default:
		}
	}
	return nil
}

// feed is one call of Feed. All but progress belongs to its goroutine.
type feed struct {
	store    *Store
	fn       func(Batch) error
	rev      int64         // complete up to here
	progress chan struct{} // RequestProgress was called
	asked    int           // requests made without an answer yet; 0 when none is wanted
}

const (
	feedBatchEvents = 1000                   // a batch takes no more responses once it has so many events
	feedRetryMin    = 20 * time.Millisecond  // first wait before a new connection
	feedRetryMax    = time.Second            // longest
	feedTellEvery   = 30 * time.Second       // between two log lines while no connection carries anything
	progressRetry   = 100 * time.Millisecond // etcd ignores requests while a watch catches up
	progressRetries = 50
)

// callbackError is what fn returned: it ends the feed as it is.
type callbackError struct{ error }

func (f *feed) run(ctx context.Context) error {
	retry := feedRetryMin
	var told time.Time // when it was last logged that the feed is broken and stays so
	for {
		started, err := f.follow(ctx)
		var callback callbackError
		switch {
		case errors.As(err, &callback):
			return callback.error
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrCompacted):
			return fmt.Errorf("feed of %s after revision %d: %w", f.store.prefix, f.rev, ErrCompacted)
		}
		if started {
			retry, told = feedRetryMin, time.Time{}
		}
		f.store.metrics.feedBroken()
		if now := time.Now(); now.Sub(told) >= feedTellEvery {
			told = now
			f.store.log.Warn("the watch of etcd broke; the store resumes it, and caches are behind until then", "prefix", f.store.prefix, "revision", f.rev, "retry", retry, "error", err)
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return ctx.Err()
		}
		retry = min(2*retry, feedRetryMax)
	}
}

// follow delivers history, and then from one stream until it breaks. started says that something came.
func (f *feed) follow(ctx context.Context) (started bool, err error) {
	newest, err := f.store.engine.revision(ctx)
	if err != nil {
		return false, err
	}
	reading, stop := context.WithCancel(ctx)
	stretches, next := f.store.catchUp(reading, f.rev, newest)
	defer func() {
		stop()
		for _, part := range stretches {
			<-part.done
		}
	}()
	w, err := f.store.engine.watch(ctx, []byte(f.store.prefix), prefixEnd(f.store.prefix), next)
	if err != nil {
		return false, err
	}
	defer w.close()
	for _, part := range stretches {
		<-part.done
		if part.err != nil {
			return started, part.err
		}
		started = true
		f.rev = part.to - 1
		if err := f.hand(Batch{Rev: f.rev, Events: part.events}); err != nil {
			return started, err
		}
		part.events = nil
	}
	again := time.NewTimer(0)
	defer again.Stop()
	if f.asked == 0 {
		again.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return started, ctx.Err()
		case <-f.progress:
			f.asked = 1
			w.requestProgress()
			again.Reset(progressRetry)
		case <-again.C:
			if f.asked++; f.asked > progressRetries {
				f.asked = 0
				continue
			}
			w.requestProgress()
			again.Reset(progressRetry)
		case r, ok := <-w.responses():
			if !ok {
				return started, w.err()
			}
			started = true
			if err := f.deliver(ctx, r, w.responses()); err != nil {
				return started, err
			}
			if f.asked == 0 {
				again.Stop()
			}
		}
	}
}

// deliver calls fn with r and what else is waiting, up to a bound.
func (f *feed) deliver(ctx context.Context, r watchResponse, more <-chan watchResponse) error {
	var b Batch
	f.add(ctx, &b, r)
	for len(b.Events) < feedBatchEvents {
		select {
		case r, ok := <-more:
			if !ok {
				return f.hand(b) // the next read finds the channel closed
			}
			f.add(ctx, &b, r)
			continue
		default:
		}
		break
	}
	return f.hand(b)
}

// add appends r's events to b, and notes how far the feed is complete.
func (f *feed) add(ctx context.Context, b *Batch, r watchResponse) {
	if len(r.events) == 0 {
		f.asked = 0
		f.rev = max(f.rev, r.rev)
		b.Rev = f.rev
		return
	}
	done := f.rev // a revision that was delivered before must not come again, whatever etcd sends
	for _, e := range r.events {
		if e.Kv.ModRevision > done {
			b.Events = append(b.Events, f.store.toEvent(ctx, e))
		}
	}
	// r.rev may be ahead of the events while the watch catches up; only the events count.
	f.rev = max(done, r.events[len(r.events)-1].Kv.ModRevision)
	b.Rev = f.rev
}

func (f *feed) hand(b Batch) error {
	f.store.metrics.fed(len(b.Events))
	if err := f.fn(b); err != nil {
		return callbackError{err}
	}
	return nil
}

func (s *Store) toEvent(ctx context.Context, e *mvccpb.Event) Event {
	ev := Event{Key: string(e.Kv.Key), ModRev: e.Kv.ModRevision}
	if e.Type != mvccpb.Event_DELETE {
		ev.Value, _, ev.Err = s.seals.open(ctx, ev.Key, e.Kv.Value)
		if ev.Value == nil {
			ev.Value = []byte{}
		}
	}
	return ev
}
