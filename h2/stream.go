package h2

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// stream is one request and its response, from the client's HEADERS until both sides have ended or one has reset.
//
//	open ──END_STREAM from the client──▶ remoteClosed
//	  │                                      │
//	  └──────── our END_STREAM ──────────────┴──▶ closed   (a client that has not ended is told NO_ERROR by RST_STREAM)
//	  └──────── RST_STREAM, either side; end of the connection ──▶ closed
//
// It is small, because thousands may be idle: what only the handler needs is in its body and responseWriter, which go when the
// handler returns.
type stream struct {
	c  *conn
	id uint32

	// All else is guarded by c.mu.

	window   int32 // what the client lets us send; less than 0 after it has lowered its initial window
	recv     int32 // what we let the client send
	consumed int32 // read by the handler, not yet given back to recv

	remoteClosed bool
	closed       bool
	weReset      bool // RST_STREAM was sent by us
	headersSent  bool
	detached     bool
	waiting      bool // a handler sleeps in send
	patient      bool // and may as long as it takes: see Patient

	line           *line // of c.lines in which it waits; nil: none
	previous, next *stream
	turn           uint32 // when it came to its line

	handling    bool   // its handler runs
	headerBytes uint32 // of the request's header list, counted in c.headerBytes

	born    uint32        // c.watch.looks when it was opened
	err     error         // why it is closed
	stalled time.Duration // waiting without enough progress, counted by the sweep

	// What a stream in line waits for, in bytes: to be sent as data, or with wantsRoom as headers, which need no window.
	wants     int
	wantsRoom bool
	progress  int // data sent since stalled was 0

	cond sync.Cond // on c.mu: data has come, a window has opened, it is closed
	body *body     // nil: no body to read

	onWritable, onClose func()
	done                chan struct{} // made when somebody asks
	after               []*afterFunc
	readTimer           *time.Timer
	writeTimer          *time.Timer
}

type afterFunc struct{ call func() }

// openLocked adds a stream that the client has begun.
func (c *conn) openLocked(id uint32) *stream {
	st := &stream{c: c, id: id, window: c.peerWindow, recv: c.streamRecv, born: c.watch.looks}
	st.cond.L = &c.mu
	c.streams[id] = st
	c.srv.counters.streams.Add(1)
	if len(c.streams) == 1 {
		c.watch.idle = 0
		c.stateLocked(http.StateActive)
	}
	return st
}

func (c *conn) stateLocked(s http.ConnState) {
	if c.onState != nil {
		c.calls = append(c.calls, func() { c.onState(c.nc, s) })
	}
}

// endLocked ends a stream: everybody who waits for it gets err.
func (st *stream) endLocked(err error) {
	if st.closed {
		return
	}
	c := st.c
	st.closed, st.err = true, err
	delete(c.streams, st.id)
	c.over.add(st.id, st.weReset)
	c.srv.counters.streams.Add(-1)
	if st.detached {
		c.srv.counters.detached.Add(-1)
	}
	c.lines.remove(st)
	for _, t := range []*time.Timer{st.readTimer, st.writeTimer} {
		if t != nil {
			t.Stop()
		}
	}
	if st.body != nil {
		c.bodies--
		st.body.dropLocked()
	}
	if st.done != nil {
		close(st.done)
	}
	for _, a := range st.after {
		c.calls = append(c.calls, a.call)
	}
	for _, call := range []func(){st.onClose, st.onWritable} {
		if call != nil {
			c.calls = append(c.calls, call)
		}
	}
	st.after, st.onClose, st.onWritable = nil, nil, nil
	st.cond.Broadcast()
	if !st.handling {
		st.releaseLocked()
	}
	if len(c.streams) == 0 {
		c.stateLocked(http.StateIdle)
		c.lastLocked()
	} else if !c.ended {
		c.wakeLocked() // it may have been woken for a window that it leaves unused
	}
}

// young says whether the client has begun the stream a moment ago: resetting it now is what a rapid-reset attack does; giving up a
// request that takes long, or ending a watch, is not.
func (st *stream) young() bool { return st.c.watch.looks-st.born < 2 }

// resetLocked ends a stream with RST_STREAM, which goes out with the next flush.
func (st *stream) resetLocked(code http2.ErrCode) {
	if st.closed {
		return
	}
	st.weReset = true
	st.c.appendReset(st.id, code)
	st.endLocked(&ResetError{code, false})
}

// sentEndLocked ends a stream of which END_STREAM is in c.buf.
func (st *stream) sentEndLocked() {
	if st.closed {
		return
	}
	if !st.remoteClosed { // nobody will read what the client still has to say
		st.weReset = true
		st.c.appendReset(st.id, http2.ErrCodeNo)
	}
	st.endLocked(errFinished)
}

// timeout resets a stream at a deadline.
func (st *stream) timeout(err error) {
	st.c.mu.Lock()
	defer st.c.unlock()
	if st.closed {
		return
	}
	st.weReset = true
	st.c.appendReset(st.id, http2.ErrCodeInternal)
	st.endLocked(err)
	st.c.flushLocked()
}

// streamContext is the request's context: the values of the connection's, the life of the stream. It makes a channel only when asked
// for one, and children of it need no goroutine (AfterFunc is what package context looks for).
type streamContext stream

var _ context.Context = (*streamContext)(nil)

func (x *streamContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (x *streamContext) Done() <-chan struct{} {
	st := (*stream)(x)
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	return st.doneLocked()
}

func (st *stream) doneLocked() <-chan struct{} {
	if st.done == nil {
		st.done = make(chan struct{})
		if st.closed {
			close(st.done)
		}
	}
	return st.done
}

func (x *streamContext) Err() error {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	if x.closed {
		return context.Canceled
	}
	return nil
}

func (x *streamContext) Value(key any) any { return x.c.ctx.Value(key) }

// AfterFunc has f called when the stream ends. stop reports whether that was prevented.
func (x *streamContext) AfterFunc(f func()) (stop func() bool) {
	st := (*stream)(x)
	a := &afterFunc{f}
	st.c.mu.Lock()
	ended := st.closed
	if !ended {
		st.after = append(st.after, a)
	}
	st.c.mu.Unlock()
	if ended {
		f()
		return func() bool { return false }
	}
	return func() bool {
		st.c.mu.Lock()
		defer st.c.mu.Unlock()
		i := slices.Index(st.after, a)
		if i >= 0 {
			st.after = slices.Delete(st.after, i, i+1)
		}
		return i >= 0
	}
}

func (x *streamContext) String() string { return "h2.streamContext" }
