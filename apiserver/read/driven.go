package read

import (
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"vigil/h2"
	"vigil/watchcache"
)

// outlet is the open response of a handler that has returned: an h2.Stream or an h2.Chunked, which say what is promised.
type outlet interface {
	TryWrite(bufs ...[]byte) (n int, err error)
	TryBuffer(bufs ...[]byte) (n int, err error)
	Flush()
	OnWritable(call func())
	OnClose(call func())
	Close()
	Reset(code http2.ErrCode)
	// Conn is the same for all outlets that Flush writes with one.
	Conn() any
}

var (
	_ outlet = (*h2.Stream)(nil)
	_ outlet = (*h2.Chunked)(nil)
)

// driven is a watch without a goroutine: whenever something may have happened to it, its worker gives it a turn.
type driven struct {
	watch
	shared sharedEncoder // enc
	out    outlet
	over   func()
	notify func()               // wake
	lane   atomic.Pointer[lane] // nil until it has been admitted

	gone atomic.Bool // the client has ended the stream
	lost atomic.Bool // events have left the window while the client was not reading

	next  *driven // on the lane; guarded by worker.mu
	ready bool    // on the lane's list; guarded by worker.mu

	// What follows is the handler's until it has been admitted, the worker's then.
	scheduled bool      // in worker.clock
	ended     bool      // nothing more is done for it
	closing   bool      // its last frame has been made
	last      bool      // see nextTick
	due       bool      // at has come
	hurried   bool      // cut has been brought forward
	at        time.Time // when the clock concerns it next
	slot      int       // in worker.clock
	cut       time.Time // when it is cut off if its client still takes nothing
	rest      [][]byte  // of the last write, what the client has not taken; the objects in it are shared
}

const (
	// writeBytes is how much is sent before looking for more. It is also what a client that stops reading leaves behind, in shared
	// bytes.
	writeBytes = 64 << 10
	// turnWrites is how many times that a watch may send before others have their turn.
	turnWrites = 4
	// patience is how long after its deadline a watch may still wait for its client to take the rest of a frame.
	patience = time.Minute
	// drainPatience is the same when the server stops.
	drainPatience = 200 * time.Millisecond
)

// cutOff is what a client is told whose stream ends in the middle of a frame.
const cutOff = http2.ErrCodeCancel

func (v *driven) closed() {
	v.gone.Store(true)
	v.wake()
}

func (v *driven) expired() {
	v.lost.Store(true)
	v.wake()
}

// turn does what is to be done for the watch. It leaves it in a state in which somebody will call wake, or the clock will.
func (v *driven) turn(w *worker) {
	switch {
	case v.ended:
		return // a call that was under way
	case v.gone.Load():
		v.end(w, false)
		return
	case !v.scheduled:
		v.scheduled = true
		v.cut = v.deadline.Add(patience)
		v.at, v.last = v.nextTick(time.Now(), false)
		w.clock.add(v)
	}
	if len(v.rest) > 0 && !v.resume(w) {
		return
	}
	for range turnWrites {
		more := !v.closing && v.collect(&w.frames, writeBytes)
		if w.frames.size > 0 && !v.send(w) {
			return
		}
		switch {
		case v.closing:
			v.end(w, false)
			return
		case !more:
			v.idle(w)
			return
		}
	}
	v.wake() // after the others
}

// collect adds what is pending to f, about n bytes of it. It returns false when less was pending.
func (v *driven) collect(f *frames, n int) bool {
	delivered := 0
	defer func() { v.res.Metrics.Events.Add(float64(delivered)) }()
	for f.size < n {
		ev, ok, err := v.cursor.Next()
		before := f.size
		switch {
		case errors.Is(err, watchcache.ErrRemoved):
			v.closing = true // there is nothing more to come, and nothing wrong
			return true
		case err != nil:
			v.fail(f, wireError(err, err.Error()))
			return true
		case !ok:
			return false
		case ev.Type == watchcache.Bookmark:
			var frame []byte
			if frame, err = v.appendInitialEnd(nil, ev.Rev); err == nil {
				f.own(frame)
			}
		default:
			if err = f.event(v.shared, string(ev.Type), ev.Object); err == nil {
				delivered++
			}
		}
		if err != nil {
			v.fail(f, err)
			return true
		}
		if size := f.size - before; size > 0 {
			v.res.Metrics.EventSizes.Observe(float64(size))
		}
	}
	return true
}

// fail adds the ERROR event that ends the watch.
func (v *driven) fail(f *frames, err error) {
	if frame, encodeErr := v.appendFailure(nil, err); encodeErr == nil {
		f.own(frame)
	}
	v.closing = true
}

// idle is the end of a turn in which all that was pending has been sent.
func (v *driven) idle(w *worker) {
	if v.due || w.draining || v.at.After(v.deadline) {
		now := time.Now()
		if !now.Before(v.deadline) {
			v.end(w, false)
			return
		}
		if frame, err := v.appendProgress(nil); err != nil {
			v.fail(&w.frames, err)
		} else {
			w.frames.own(frame)
			v.closing = w.draining
		}
		v.at, v.last = v.nextTick(now, v.last)
		v.due = false
		w.clock.moved(v)
		if w.frames.size > 0 && !v.send(w) {
			return
		}
		if v.closing {
			v.end(w, false)
			return
		}
	}
	v.cursor.Notify(v.notify)
}

// send writes w.frames. It returns false if the watch cannot go on now.
func (v *driven) send(w *worker) bool {
	n, ok := v.write(w, w.frames.parts)
	if ok && n < w.frames.size {
		v.rest = w.frames.rest(n)
		v.wait(w)
		ok = false
	}
	w.frames.reset()
	return ok
}

// resume writes what the client has not taken before. It returns false if the watch cannot go on now.
func (v *driven) resume(w *worker) bool {
	n, ok := v.write(w, v.rest)
	if !ok {
		return false
	}
	if v.rest = skip(v.rest, n); len(v.rest) > 0 {
		v.wait(w)
		return false
	}
	v.rest = nil
	return true
}

func (v *driven) write(w *worker, parts [][]byte) (n int, ok bool) {
	var err error
	if w.several {
		n, err = v.out.TryBuffer(parts...)
	} else {
		n, err = v.out.TryWrite(parts...)
	}
	if err != nil {
		v.end(w, false)
	}
	return n, err == nil
}

// wait is the end of a turn in which the client did not take everything.
func (v *driven) wait(w *worker) {
	now := time.Now()
	switch {
	case w.draining:
		v.hurry(now.Add(drainPatience))
	case v.lost.Load():
		v.hurry(now.Add(v.lastChance))
	}
	if !now.Before(v.cut) {
		v.end(w, true)
		return
	}
	if v.due || v.cut.Before(v.at) {
		// Bookmarks are of no use to a client that does not read.
		v.due = false
		if v.at, v.last = v.nextTick(now, v.last); !v.at.After(now) || v.cut.Before(v.at) {
			v.at = v.cut
		}
		w.clock.moved(v)
	}
	v.out.OnWritable(v.notify)
}

// hurry has the watch cut off at t unless its client reads.
func (v *driven) hurry(t time.Time) {
	if t.Before(v.cut) && !v.hurried {
		v.cut, v.hurried = t, true
	}
}

// end ends the watch, in good order unless its client lacks something or cut is set.
func (v *driven) end(w *worker, cut bool) {
	v.ended = true
	if cut || len(v.rest) > 0 || !v.finish() {
		v.out.Reset(cutOff)
	} else {
		v.out.Close()
	}
	w.frames.reset()
	if v.scheduled {
		w.clock.remove(v)
	}
	w.forget(v.lane.Load())
	v.release()
}

// finish sends the end of a compressed stream. It returns false if the client has no room for it.
func (v *driven) finish() bool {
	f, ok := v.enc.(finisher)
	if !ok || v.gone.Load() {
		return true
	}
	tail := f.finish(nil)
	n, err := v.out.TryWrite(tail)
	return err != nil || n == len(tail)
}

// release gives back what a watch holds besides its stream.
func (v *driven) release() {
	if v.cursor != nil {
		v.cursor.Close()
	}
	v.rest = nil
	v.over()
}
