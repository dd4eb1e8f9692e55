package read

import (
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/request"
	"vigil/apiserver/respond"
	"vigil/h2"
	"vigil/watchcache"
)

// Watch answers a watch. An error means that it never began. It may go on when Watch has returned: detached is
// true then, and over is called when it has ended. Else over is not called.
func (r *Reader) Watch(w http.ResponseWriter, req *http.Request, res *Resource, info *request.Info, opts *request.ListOptions, over func()) (detached bool, err error) {
	replacesList := opts.SendInitialEvents != nil && *opts.SendInitialEvents // Complete also says so for clients that did not ask
	if err := opts.Complete(); err != nil {
		return false, err
	}
	sel, err := Selection(res.Kind, info, opts)
	if err != nil {
		return false, err
	}
	endpoint := Endpoint(res.Kind)
	endpoint.Watch = true
	form, err := Accept(req, endpoint)
	if err != nil {
		return false, err
	}
	enc, err := newEncoder(req, form, res)
	if err != nil {
		return false, err
	}
	from, initial, err := watchcache.WatchFreshness(opts.ResourceVersion, opts.SendInitialEvents)
	if err != nil {
		return false, apierrors.NewBadRequest(err.Error())
	}
	common := watch{res: res, enc: enc, bookmarks: opts.AllowWatchBookmarks, every: r.bookmarkEvery, lastChance: r.lastChance, scope: info.Scope()}
	common.deadline = time.Now().Add(r.duration(opts.TimeoutSeconds))
	if initial {
		common.began = time.Now()
	}
	begin := func(w *watch, expired func()) (err error) {
		w.cursor, err = res.Cache.StartWatch(req.Context(), from, initial, watchcache.WatchOptions{Selection: sel, EndBookmark: true, OnExpired: expired})
		return err
	}
	if coding := r.packing(req, replacesList); coding != 0 {
		announce(w.Header(), coding)
		common.enc = pack(enc, coding)
	}
	if shared, ok := common.enc.(sharedEncoder); ok && r.drives(w, req) {
		r.delivery.serve(w, req, &driven{watch: common, shared: shared, over: over}, begin)
		return true, nil
	}
	s := &stream{watch: common}
	if s.out, err = r.sink(w, req, form, enc, s.deadline); err != nil {
		w.Header().Del("Content-Encoding")
		return false, err
	}
	defer s.out.close()
	if req.Method == http.MethodHead {
		return false, nil
	}
	if err := begin(&s.watch, s.out.expired); err != nil {
		// The client is told inside of the stream; if it is gone, nobody needs to be.
		_ = s.fail(wireError(err, err.Error()))
		s.finish()
		return false, nil
	}
	defer s.cursor.Close()
	s.run(req.Context(), r.draining)
	s.finish()
	return false, nil
}

// drives says whether the workers of the delivery can drive the watch that req asks for: whether its connection writes without
// blocking, and its events are the same for all.
func (r *Reader) drives(w http.ResponseWriter, req *http.Request) bool {
	return r.delivery.running() && req.Method == http.MethodGet && (h2.Detachable(w) || h2.Chunkable(req) && !isWebSocket(req))
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

// watch is one running watch: where it stands and what it has to tell its client. Two things drive one: a goroutine of its own
// (stream), or the workers of a delivery (driven).
type watch struct {
	res        *Resource
	enc        encoder
	cursor     *watchcache.Cursor
	bookmarks  bool
	every      time.Duration // between bookmarks
	lastChance time.Duration // see Config
	deadline   time.Time
	began      time.Time // of a watch that begins with initial events; zero else
	scope      string    // for metrics
}

// appendInitialEnd marks the end of the initial events, which a client sees only if it asked for bookmarks.
func (w *watch) appendInitialEnd(dst []byte, rev int64) ([]byte, error) {
	w.res.Metrics.WatchList(w.scope, time.Since(w.began))
	if !w.bookmarks {
		return dst, nil
	}
	return w.enc.bookmark(dst, rev, true)
}

// appendProgress appends a bookmark, if the client wants them and there is a revision to tell. Everything pending must have been
// sent.
func (w *watch) appendProgress(dst []byte) ([]byte, error) {
	rev := w.cursor.Progress()
	if !w.bookmarks || rev == 0 {
		return dst, nil
	}
	return w.enc.bookmark(dst, rev, false)
}

// appendFailure appends the ERROR event that ends a watch.
func (w *watch) appendFailure(dst []byte, err error) ([]byte, error) {
	status := respond.Status(err)
	return w.enc.status(dst, &status)
}

// beforeEnd is how long before the deadline a watch gets its last bookmark.
const beforeEnd = 2 * time.Second

// nextTick says when the watch has to look at the clock again: for a bookmark, for the last bookmark or for the end.
// last is true when the last bookmark is the next or behind.
func (w *watch) nextTick(now time.Time, last bool) (time.Time, bool) {
	if !w.bookmarks || last {
		return w.deadline, true
	}
	end := w.deadline.Add(-beforeEnd)
	if regular := now.Add(w.every); regular.Before(end) {
		return regular, false
	}
	if now.Before(end) {
		return end, true
	}
	return w.deadline, true
}
