package h2

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/net/http2"
)

// StreamWriter is the ResponseWriter of this package; see Detach.
type StreamWriter interface {
	// Detach sends the header and what has been written, and gives the rest of the response away: the handler should return, its
	// ResponseWriter takes nothing more, and its request's body is closed. The request's context goes on until the stream ends.
	Detach() (*Stream, error)
}

// Detach detaches w, or the first StreamWriter that it wraps (by Unwrap, as with http.ResponseController). ok is false when there is
// none, as with HTTP/1.1. An error means that the stream has ended.
func Detach(w http.ResponseWriter) (s *Stream, ok bool, err error) {
	for {
		switch t := w.(type) {
		case StreamWriter:
			s, err = t.Detach()
			return s, true, err
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return nil, false, nil
		}
	}
}

// Detachable says whether w is, or wraps, a StreamWriter.
func Detachable(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case StreamWriter:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// Stream is the open response of a handler that has returned. Its methods may be called from any goroutine, but what several
// write at once comes in any order. Callbacks are called once, by the goroutine that reads the connection or drains its
// socket: they must hand over and return, never block. A Stream must be ended by Close or Reset, or by its client.
type Stream struct{ st *stream }

func (w *responseWriter) Detach() (*Stream, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil {
		return nil, w.over
	}
	if err := w.send(nil, false); err != nil {
		return nil, err
	}
	st := w.st
	if st.body != nil {
		_ = st.body.Close()
	}
	st.setWriteDeadline(time.Time{})
	st.setReadDeadline(time.Time{})
	w.over = errDetached
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	if st.closed {
		return nil, st.err
	}
	st.detached = true
	st.c.srv.counters.detached.Add(1)
	return &Stream{st}, nil
}

// TryWrite sends as much of bufs, one after the other, as the windows and the socket's budget allow, in one write, and
// returns how many bytes that was. It never waits. With less than all and no error, OnWritable says when to go on. The
// bytes are not kept. An error means that the stream has ended.
func (s *Stream) TryWrite(bufs ...[]byte) (n int, err error) {
	c := s.st.c
	c.mu.Lock()
	n, err = s.st.tryLocked(bufs)
	c.flushLocked()
	c.mu.Unlock()
	return n, err
}

// TryBuffer is TryWrite, but leaves the bytes with the connection until somebody writes to it or calls Flush: for several streams
// of one connection that have something to send at once. No more than 64 KiB wait like that.
func (s *Stream) TryBuffer(bufs ...[]byte) (n int, err error) {
	c := s.st.c
	c.mu.Lock()
	n, err = s.st.tryLocked(bufs)
	c.mu.Unlock()
	return n, err
}

// Flush writes what TryBuffer has left.
func (s *Stream) Flush() {
	c := s.st.c
	c.mu.Lock()
	c.flushLocked()
	c.mu.Unlock()
}

// Conn returns a value that is equal for streams of the same connection: what TryBuffer can write in one go.
func (s *Stream) Conn() any { return s.st.c }

func (st *stream) tryLocked(bufs [][]byte) (n int, err error) {
	c := st.c
	if st.closed {
		return 0, st.err
	}
	if c.failed != nil {
		return 0, errClientGone
	}
	left := gather{bufs: bufs}
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	for n < total {
		if len(c.buf) >= chunkLen-2*frameHeaderLen {
			c.flushLocked()
		}
		m := min(total-n, c.sendableLocked(st))
		if c.sock != nil {
			m = min(m, chunkLen-len(c.buf)-frameHeaderLen*(1+chunkLen/c.peerFrame))
		}
		if m <= 0 {
			if c.sendableLocked(st) > 0 {
				c.flushLocked()
				continue
			}
			c.srv.counters.shortWrites.Add(1)
			st.wants = total - n
			break
		}
		c.appendGathered(st, &left, m)
		n += m
	}
	return n, nil
}

// gather is what is left of several buffers, which it does not change.
type gather struct {
	bufs [][]byte
	off  int // in bufs[0]
}

// appendGathered is appendData for the next n bytes of g: its frames do not end where its buffers do.
func (c *conn) appendGathered(st *stream, g *gather, n int) {
	for n > 0 {
		m := min(n, c.peerFrame)
		n -= m
		c.frameHeader(m, http2.FrameData, 0, st.id)
		c.window -= int32(m)
		st.window -= int32(m)
		c.buf = g.take(c.buf, m)
	}
}

// take appends the next n bytes to dst.
func (g *gather) take(dst []byte, n int) []byte {
	for n > 0 {
		b := g.bufs[0][g.off:]
		if len(b) > n {
			b = b[:n]
			g.off += n
		} else {
			g.bufs, g.off = g.bufs[1:], 0
		}
		dst = append(dst, b...)
		n -= len(b)
	}
	return dst
}

// OnWritable has call called once when something can be written, or the stream has ended; at once, by this goroutine, if that is
// so now. It replaces a call that is still due; nil takes it back.
func (s *Stream) OnWritable(call func()) {
	st := s.st
	c := st.c
	c.mu.Lock()
	if call != nil && !st.closed && c.sendableLocked(st) == 0 {
		st.onWritable = call
		c.lines.add(st)
		c.mu.Unlock()
		return
	}
	st.onWritable = nil
	c.mu.Unlock()
	if call != nil {
		call()
	}
}

// OnClose has call called once when the stream ends otherwise than by Close or Reset; at once, by this goroutine, if it
// has. It replaces a call that is still due; nil takes it back.
func (s *Stream) OnClose(call func()) {
	st := s.st
	st.c.mu.Lock()
	if !st.closed {
		st.onClose = call
		st.c.mu.Unlock()
		return
	}
	st.c.mu.Unlock()
	if call != nil {
		call()
	}
}

// Done is closed when the stream has ended. OnClose is cheaper: no channel, no goroutine that waits for it.
func (s *Stream) Done() <-chan struct{} { return s.Context().Done() }

// Context is the request's: it has the connection's values and ends with the stream.
func (s *Stream) Context() context.Context { return (*streamContext)(s.st) }

// Err says why the stream has ended, nil while it has not.
func (s *Stream) Err() error {
	s.st.c.mu.Lock()
	defer s.st.c.mu.Unlock()
	return s.st.err
}

// Close ends the response in good order. What TryWrite has taken is still sent.
func (s *Stream) Close() {
	st := s.st
	st.c.mu.Lock()
	defer st.c.unlock()
	if st.closed {
		return
	}
	st.onClose, st.onWritable = nil, nil
	st.c.appendData(st, nil, true)
	st.sentEndLocked()
	st.c.flushLocked()
}

// Reset ends the response so that the client knows it is not complete.
func (s *Stream) Reset(code http2.ErrCode) {
	st := s.st
	st.c.mu.Lock()
	defer st.c.unlock()
	st.onClose, st.onWritable = nil, nil
	st.resetLocked(code)
	st.c.flushLocked()
}
