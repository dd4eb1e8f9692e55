package read

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"vigil/h2"
)

// delivery drives watches with a few workers instead of a goroutine for each:
//
//	the cache appends an event ─ Cursor.Notify ─┐
//	the client opens its window ─ OnWritable ───┼─▶ lane of the connection ─▶ run queue ─▶ worker: driven.turn
//	the client resets the stream ─ OnClose ─────┘                                            │ clock (schedule)
//
// All watches of a connection are on one lane and so with one worker, which writes what they have in one go. A watch is in its lane's
// list at most once, a lane in the run queue at most once, so an event costs a watcher that is behind nothing more. Nobody waits
// for a client: one that takes nothing keeps its cursor and the rest of a frame until it reads again, is lost
// by the cache, or its time is over.
type delivery struct {
	workers  []*worker
	draining <-chan struct{}
	seed     maphash.Seed
	started  atomic.Bool
}

func newDelivery(workers int, draining <-chan struct{}, log *slog.Logger) *delivery {
	d := &delivery{draining: draining, seed: maphash.MakeSeed()}
	for range workers {
		d.workers = append(d.workers, newWorker(log))
	}
	return d
}

// running says whether watches can be handed over.
func (d *delivery) running() bool { return d.started.Load() }

func (d *delivery) run(ctx context.Context) error {
	d.started.Store(true)
	defer d.started.Store(false)
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range d.workers {
		g.Go(func() error {
			w.run(ctx, d.draining)
			return nil
		})
	}
	return g.Wait()
}

// detach gives the response away, with the header and the first frames on their way or in v.rest.
func (v *driven) detach(w http.ResponseWriter, r *http.Request, f *frames) error {
	if r.ProtoMajor == 1 {
		out, err := h2.DetachChunked(w, r)
		v.out, v.rest = out, f.rest(0)
		return err
	}
	w.WriteHeader(http.StatusOK)
	if f.size <= 2*firstBytes { // else Write might wait
		for _, p := range f.parts {
			if _, err := w.Write(p); err != nil {
				return err
			}
		}
	} else {
		v.rest = f.rest(0)
	}
	out, _, err := h2.Detach(w)
	v.out = out
	return err
}

// firstBytes is about how much a handler sends together with its header: less than any client's window that is not meant to hurt,
// because it waits for that.
const firstBytes = 16 << 10

var framesPool = sync.Pool{New: func() any { return new(frames) }}

// serve begins a watch in its handler's goroutine, which can wait for the cache, and hands it over.
func (d *delivery) serve(w http.ResponseWriter, r *http.Request, v *driven, begin func(*watch, func()) error) {
	w.Header()["Content-Type"] = []string{v.enc.contentType()}
	f := framesPool.Get().(*frames)
	defer func() {
		f.reset()
		framesPool.Put(f)
	}()
	if err := begin(&v.watch, v.expired); err != nil {
		v.fail(f, wireError(err, err.Error()))
	} else {
		v.collect(f, firstBytes)
	}
	if err := v.detach(w, r, f); err != nil {
		v.release() // the client is gone
		return
	}
	v.notify = v.wake
	v.out.OnClose(v.closed)
	conn := v.out.Conn()
	if !d.workers[maphash.Comparable(d.seed, conn)%uint64(len(d.workers))].admit(v, conn) {
		v.out.Reset(cutOff)
		v.release()
	}
}
