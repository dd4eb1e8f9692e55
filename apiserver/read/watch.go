package read

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/request"
	"vigil/apiserver/respond"
	"vigil/watchcache"
)

// Watch answers a watch. It returns when the watch has ended; an error means that it never began.
func (r *Reader) Watch(w http.ResponseWriter, req *http.Request, res *Resource, info *request.Info, opts *request.ListOptions) error {
	if err := opts.Complete(); err != nil {
		return err
	}
	sel, err := Selection(res.Kind, info, opts)
	if err != nil {
		return err
	}
	endpoint := Endpoint(res.Kind)
	endpoint.Watch = true
	form, err := Accept(req, endpoint)
	if err != nil {
		return err
	}
	enc, err := newEncoder(req, form, res)
	if err != nil {
		return err
	}
	from, initial, err := watchcache.WatchFreshness(opts.ResourceVersion, opts.SendInitialEvents)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	s := &stream{res: res, enc: enc, bookmarks: opts.AllowWatchBookmarks, every: r.bookmarkEvery, scope: info.Scope()}
	s.deadline = time.Now().Add(r.duration(opts.TimeoutSeconds))
	if s.out, err = r.sink(w, req, form, enc, s.deadline); err != nil {
		return err
	}
	defer s.out.close()
	if req.Method == http.MethodHead {
		return nil
	}
	if initial {
		s.began = time.Now()
	}
	s.cursor, err = res.Cache.StartWatch(req.Context(), from, initial, watchcache.WatchOptions{Selection: sel, EndBookmark: true, OnExpired: s.out.expired})
	if err != nil {
		// The client is told inside of the stream; if it is gone, nobody needs to be.
		_ = s.fail(wireError(err, err.Error()))
		return nil
	}
	defer s.cursor.Close()
	s.run(req.Context(), r.draining)
	return nil
}

// duration is how long a watch lasts: what the client says, or a random time, so that the watches of many clients that
// came at once do not all come back at once.
func (r *Reader) duration(timeoutSeconds int64) time.Duration {
	const longest = 100 * 365 * 24 * 3600 // keeps the product below from overflowing
	if timeoutSeconds > 0 {
		return time.Duration(min(timeoutSeconds, longest)) * time.Second
	}
	return r.minTimeout + rand.N(r.minTimeout)
}

// stream is one running watch. Everything it does between two waits is pump and tick, which never wait for anything but
// the client's connection: a few workers could drive many streams.
type stream struct {
	res       *Resource
	enc       encoder
	out       sink
	cursor    *watchcache.Cursor
	bookmarks bool
	every     time.Duration // between bookmarks
	deadline  time.Time
	began     time.Time // of a watch whose initial events are not over; zero else
	scope     string    // for metrics
}

// flushEvents is the size in bytes at which pending events are handed to the connection before looking for more.
const flushEvents = 64 << 10

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
			encodeErr = s.initialEnd(buf, ev.Rev)
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
	if err != nil {
		return s.fail(wireError(err, err.Error()))
	}
	return nil
}

// initialEnd marks the end of the initial events, which a client sees only if it asked for bookmarks.
func (s *stream) initialEnd(buf *[]byte, rev int64) error {
	s.res.Metrics.WatchList(s.scope, time.Since(s.began))
	if !s.bookmarks {
		return nil
	}
	var err error
	*buf, err = s.enc.bookmark(*buf, rev, true)
	return err
}

func (s *stream) flush(buf *[]byte) error {
	if len(*buf) == 0 {
		return nil
	}
	err := s.out.send(*buf)
	*buf = (*buf)[:0]
	return err
}

// tick sends a bookmark, if the client wants them and there is a revision to tell. It is to be called when pump has just
// returned.
func (s *stream) tick() error {
	rev := s.cursor.Progress()
	if !s.bookmarks || rev == 0 {
		return nil
	}
	buf := respond.Buffer()
	defer respond.Release(buf)
	var err error
	if *buf, err = s.enc.bookmark(*buf, rev, false); err != nil {
		return s.fail(err)
	}
	return s.flush(buf)
}

// fail ends the watch with an ERROR event and returns the error that it reports.
func (s *stream) fail(err error) error {
	status := respond.Status(err)
	buf := respond.Buffer()
	defer respond.Release(buf)
	var encodeErr error
	if *buf, encodeErr = s.enc.status(*buf, &status); encodeErr != nil {
		return encodeErr
	}
	if sendErr := s.flush(buf); sendErr != nil {
		return sendErr
	}
	return err
}

// beforeEnd is how long before the deadline a watch gets its last bookmark.
const beforeEnd = 2 * time.Second

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

// nextTick says when the stream has to look at the clock again: for a bookmark, for the last bookmark or for the end.
// last is true when the last bookmark is the next or behind.
func (s *stream) nextTick(now time.Time, last bool) (time.Time, bool) {
	if !s.bookmarks || last {
		return s.deadline, true
	}
	end := s.deadline.Add(-beforeEnd)
	if regular := now.Add(s.every); regular.Before(end) {
		return regular, false
	}
	if now.Before(end) {
		return end, true
	}
	return s.deadline, true
}
