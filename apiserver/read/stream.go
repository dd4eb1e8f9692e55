package read

import (
	"context"
	"errors"
	"time"

	"vigil/apiserver/respond"
	"vigil/watchcache"
)

// stream is a watch with a goroutine of its own, which may wait for the client to read.
type stream struct {
	watch
	out sink
}

// flushEvents is the size in bytes at which pending events are handed to the connection before looking for more.
const flushEvents = 64 << 10

// run drives the stream until its deadline, the end of the client or the end of the server.
func (s *stream) run(ctx context.Context, draining <-chan struct{}) {
	wake := make(chan struct{}, 1)
	notify := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	next, last := s.nextTick(time.Now(), false)
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	s.out.begin()
	for {
		if s.pump() != nil {
			return
		}
		s.cursor.Notify(notify)
		select {
		case <-wake:
		case <-ctx.Done():
			return
		case <-s.out.gone():
			return
		case <-draining:
			if s.pump() == nil {
				// Nothing is left to do for a client that does not take its last bookmark.
				_ = s.tick()
			}
			return
		case now := <-timer.C:
			if !now.Before(s.deadline) {
				return
			}
			if s.pump() != nil || s.tick() != nil {
				return
			}
			next, last = s.nextTick(now, last)
			timer.Reset(time.Until(next))
		}
	}
}

// pump sends all that is pending, in few writes. It fails when the watch is over: with the client, or with what has
// been reported to it already.
func (s *stream) pump() error {
	ev, ok, err := s.cursor.Next()
	if !ok && err == nil {
		return nil
	}
	buf := respond.Buffer()
	defer respond.Release(buf)
	delivered := 0
	defer func() { s.res.Metrics.Events.Add(float64(delivered)) }()
	for ; ok; ev, ok, err = s.cursor.Next() {
		before := len(*buf)
		var encodeErr error
		if ev.Type == watchcache.Bookmark {
			*buf, encodeErr = s.appendInitialEnd(*buf, ev.Rev)
		} else {
			*buf, encodeErr = s.enc.event(*buf, string(ev.Type), ev.Object)
			delivered++
		}
		if encodeErr != nil {
			if err := s.flush(buf); err != nil {
				return err
			}
			return s.fail(encodeErr)
		}
		if size := len(*buf) - before; size > 0 {
			s.res.Metrics.EventSizes.Observe(float64(size))
		}
		if len(*buf) >= flushEvents || s.out.single() {
			if err := s.flush(buf); err != nil {
				return err
			}
		}
	}
	if flushErr := s.flush(buf); flushErr != nil {
		return flushErr
	}
	switch {
	case errors.Is(err, watchcache.ErrRemoved):
		return err // there is nothing more to come, and nothing wrong: the client sees the end
	case err != nil:
		return s.fail(wireError(err, err.Error()))
	}
	return nil
}

func (s *stream) flush(buf *[]byte) error {
	if len(*buf) == 0 {
		return nil
	}
	err := s.out.send(*buf)
	*buf = (*buf)[:0]
	return err
}

// tick sends a bookmark. It is to be called when pump has just returned.
func (s *stream) tick() error {
	buf := respond.Buffer()
	defer respond.Release(buf)
	var err error
	if *buf, err = s.appendProgress(*buf); err != nil {
		return s.fail(err)
	}
	return s.flush(buf)
}

// finish ends the stream as its coding asks for, if it has one. It fails only when the client is gone.
func (s *stream) finish() {
	if f, ok := s.enc.(finisher); ok {
		_ = s.out.send(f.finish(nil))
	}
}

// fail ends the watch with an ERROR event and returns the error that it reports.
func (s *stream) fail(err error) error {
	buf := respond.Buffer()
	defer respond.Release(buf)
	var encodeErr error
	if *buf, encodeErr = s.appendFailure(*buf, err); encodeErr != nil {
		return encodeErr
	}
	if sendErr := s.flush(buf); sendErr != nil {
		return sendErr
	}
	return err
}
