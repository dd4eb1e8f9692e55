package h2

import (
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// body is a request's body: what has come and was not read. Guarded by conn.mu.
type body struct {
	st  *stream
	req *http.Request // gets the trailers

	chunks   [][]byte      // pooled; only the last has room
	off      int           // read of chunks[0]
	declared bool          // the client said Content-Length
	left     int64         // what it has still to send of that
	eof      bool          // END_STREAM has come
	closed   bool          // by the handler
	err      error         // instead of waiting: a deadline
	patient  bool          // the handler has set a deadline: Server.ReadTimeout does not count
	age      time.Duration // counted by the sweep
	trailers http.Header

	expect atomic.Bool // 100-continue is to be sent at the first Read
}

// Read returns what has come, and waits if nothing has. It is an error of ErrStreamClosed's kind when the stream ended
// before the body did.
func (b *body) Read(p []byte) (int, error) {
	st := b.st
	c := st.c
	c.mu.Lock()
	defer c.unlock()
	if b.expect.Swap(false) && !st.headersSent && !st.closed && !b.eof {
		c.continueLocked(st)
	}
	for {
		switch {
		case b.closed:
			return 0, errBodyClosed
		case len(b.chunks) > 0:
			n := b.takeLocked(p)
			c.consumedLocked(st, n)
			c.flushLocked()
			return n, nil
		case b.err != nil:
			return 0, b.err
		case b.eof:
			for key := range b.req.Trailer {
				if v, ok := b.trailers[key]; ok {
					b.req.Trailer[key] = v
				}
			}
			return 0, io.EOF
		case st.closed:
			return 0, st.err
		case len(p) == 0:
			return 0, nil
		}
		st.cond.Wait()
	}
}

func (b *body) takeLocked(p []byte) (n int) {
	for len(b.chunks) > 0 && n < len(p) {
		m := copy(p[n:], b.chunks[0][b.off:])
		n += m
		if b.off += m; b.off == len(b.chunks[0]) {
			putBuffer(b.chunks[0])
			b.chunks[0] = nil
			b.chunks, b.off = b.chunks[1:], 0
		}
	}
	return n
}

// Close gives up what was not read. It may be called while Read waits.
func (b *body) Close() error {
	c := b.st.c
	c.mu.Lock()
	defer c.unlock()
	if !b.closed {
		b.closed = true
		b.dropLocked()
		c.flushLocked()
		b.st.cond.Broadcast()
	}
	return nil
}

// dropLocked throws unread data away and gives it back to the connection's window.
func (b *body) dropLocked() {
	n := -b.off
	for _, chunk := range b.chunks {
		n += len(chunk)
		putBuffer(chunk)
	}
	b.chunks, b.off = nil, 0
	if n > 0 {
		b.st.c.consumedLocked(nil, n)
	}
}

// addLocked keeps a copy of what has come.
func (b *body) addLocked(p []byte) {
	for len(p) > 0 {
		if i := len(b.chunks) - 1; i >= 0 && len(b.chunks[i]) < cap(b.chunks[i]) {
			last := b.chunks[i]
			n := min(len(p), cap(last)-len(last))
			b.chunks[i] = append(last, p[:n]...)
			p = p[n:]
			continue
		}
		b.chunks = append(b.chunks, getBuffer(len(p)))
	}
}

// consumedLocked gives n bytes back to the window of the connection, and of st if it is not nil, by and by.
func (c *conn) consumedLocked(st *stream, n int) {
	c.consumed += int32(n)
	if c.consumed >= c.limits.connWindow/4 {
		c.appendWindowUpdate(0, c.consumed)
		c.recv += c.consumed
		c.consumed = 0
	}
	if st == nil || st.closed || st.remoteClosed {
		return
	}
	st.consumed += int32(n)
	if st.consumed >= (c.limits.streamWindow+3)/4 {
		c.appendWindowUpdate(st.id, st.consumed)
		st.recv += st.consumed
		st.consumed = 0
	}
}

// data reads a DATA frame.
func (c *conn) data(fh http2.FrameHeader) error {
	if fh.StreamID == 0 {
		return protocolError("DATA on stream 0")
	}
	n, pad := int(fh.Length), 0
	if fh.Flags.Has(http2.FlagDataPadded) {
		if n == 0 {
			return &connError{http2.ErrCodeFrameSize, "DATA without pad length"}
		}
		var length [1]byte
		if _, err := io.ReadFull(c.nc, length[:]); err != nil {
			return err
		}
		pad = int(length[0])
		if n -= 1 + pad; n < 0 {
			return protocolError("DATA with more padding than length")
		}
	}
	st, err := c.startData(fh, n)
	if _, fatal := err.(*connError); fatal {
		return err
	}
	if st == nil {
		if _, e := io.CopyN(io.Discard, c.nc, int64(n+pad)); e != nil {
			return e
		}
		c.mu.Lock()
		c.consumedLocked(nil, int(fh.Length))
		c.flushLocked()
		c.unlock()
		return err
	}
	b := getBuffer(n + pad)[:n+pad]
	defer putBuffer(b)
	if _, err := io.ReadFull(c.nc, b); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.unlock()
	c.consumedLocked(st, int(fh.Length)-n) // nobody reads padding
	if st.closed || st.body.closed {
		c.consumedLocked(nil, n)
	} else {
		st.body.addLocked(b[:n])
		st.cond.Broadcast()
		c.countLocked()
	}
	if fh.Flags.Has(http2.FlagDataEndStream) {
		err = st.endBodyLocked()
	}
	c.flushLocked()
	return err
}

// startData says whether the client may send this frame: a nil stream means that it is to be skipped, perhaps for an error.
func (c *conn) startData(fh http2.FrameHeader, n int) (*stream, error) {
	c.mu.Lock()
	defer c.unlock()
	if int64(fh.Length) > int64(c.recv) {
		return nil, &connError{http2.ErrCodeFlowControl, "connection window exceeded"}
	}
	c.recv -= int32(fh.Length)
	st, err := c.streamLocked(fh.StreamID)
	if err != nil {
		return nil, err
	}
	if st == nil {
		if _, reset := c.over.find(fh.StreamID); reset {
			return nil, c.guard.control() // it was under way when we ended the stream
		}
		return nil, &streamError{fh.StreamID, http2.ErrCodeStreamClosed, "DATA on a closed stream"}
	}
	if st.remoteClosed {
		return nil, &streamError{fh.StreamID, http2.ErrCodeStreamClosed, "DATA after END_STREAM"}
	}
	if int64(fh.Length) > int64(st.recv) {
		return nil, &streamError{fh.StreamID, http2.ErrCodeFlowControl, "stream window exceeded"}
	}
	st.recv -= int32(fh.Length)
	if st.body.declared {
		if st.body.left -= int64(n); st.body.left < 0 {
			return nil, &streamError{fh.StreamID, http2.ErrCodeProtocol, "more than Content-Length"}
		}
	}
	if n == 0 && !fh.Flags.Has(http2.FlagDataEndStream) {
		if err := c.guard.control(); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// endBodyLocked notes the client's END_STREAM.
func (st *stream) endBodyLocked() error {
	st.remoteClosed = true
	if st.closed {
		return nil
	}
	if b := st.body; b.declared && b.left > 0 {
		return &streamError{st.id, http2.ErrCodeProtocol, "less than Content-Length"}
	}
	st.body.eof = true
	st.cond.Broadcast()
	return nil
}

// setReadDeadline makes Read fail after t, and no sooner.
func (st *stream) setReadDeadline(t time.Time) {
	st.c.mu.Lock()
	defer st.c.unlock()
	if st.readTimer != nil {
		st.readTimer.Stop()
		st.readTimer = nil
	}
	b := st.body
	if b == nil || st.closed {
		return
	}
	b.patient = true
	switch wait := time.Until(t); {
	case t.IsZero():
	case wait <= 0:
		b.err = os.ErrDeadlineExceeded
		st.cond.Broadcast()
	default:
		st.readTimer = time.AfterFunc(wait, func() {
			st.c.mu.Lock()
			b.err = os.ErrDeadlineExceeded
			st.cond.Broadcast()
			st.c.mu.Unlock()
		})
	}
}

// setWriteDeadline resets the stream at t.
func (st *stream) setWriteDeadline(t time.Time) {
	wait := time.Until(t)
	if !t.IsZero() && wait <= 0 {
		st.timeout(os.ErrDeadlineExceeded)
		return
	}
	st.c.mu.Lock()
	defer st.c.unlock()
	if st.writeTimer != nil {
		st.writeTimer.Stop()
		st.writeTimer = nil
	}
	if !t.IsZero() && !st.closed {
		st.writeTimer = time.AfterFunc(wait, func() { st.timeout(os.ErrDeadlineExceeded) })
	}
}
