package h2

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// NewListener returns a listener whose connections can be written to without blocking, which is what a Server needs to
// write under a connection's lock. Until a Server takes such a connection over it behaves like any other, so HTTP/1.1 is served on
// the same listener. Wrap it inside TLS: hs.ServeTLS(h2.NewListener(l), ...) or tls.NewListener(h2.NewListener(l), config).
func NewListener(l net.Listener) net.Listener { return &listener{l} }

type listener struct{ net.Listener }

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newSocket(c), nil
}

// newSocket returns c itself if the system's socket below it is out of reach.
func newSocket(c net.Conn) net.Conn {
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			s := &socket{Conn: c}
			s.try.raw = raw
			return s
		}
	}
	return c
}

// socket is a connection that blocks in Write until startAsync, and never after. From then on Write gives the kernel what it takes at
// once; the rest is pending and a goroutine drains it, which ends when nothing is pending. The TLS connection above encrypts
// into it, so what is pending is ciphertext and order is kept whoever writes (also TLS itself, for a key update).
type socket struct {
	net.Conn

	patience atomic.Int64 // how long a Write that blocks may take, in nanoseconds; 0 for ever
	writing  blockedWrite

	taken   atomic.Bool // by DetachChunked
	async   atomic.Bool
	timeout time.Duration  // set by startAsync: how long the kernel may take nothing; 0 for ever
	full    *atomic.Uint64 // set by startAsync: counts how often the kernel took less than it was given
	drained func()         // set by startAsync: called by the draining goroutine, without lock, when pending has shrunk

	size atomic.Int64 // bytes pending, those being drained included

	mu       sync.Mutex // may be taken while holding conn.mu, never the other way round
	try      tryWriter
	pending  []byte // pooled; what comes after what is being drained
	corked   bool   // collect in pending, do not write
	draining bool   // the goroutine runs, and alone writes
	closing  bool   // close when drained
	err      error  // why nothing can be written any more
}

// startAsync makes Write stop blocking. It reports false where that cannot be done.
func (s *socket) startAsync(timeout time.Duration, full *atomic.Uint64, drained func()) bool {
	if !canTryWrite {
		return false
	}
	s.timeout, s.full, s.drained = timeout, full, drained
	_ = s.Conn.SetWriteDeadline(time.Time{})
	s.async.Store(true)
	return true
}

// Write takes all of p. An error is that of an earlier write as well.
func (s *socket) Write(p []byte) (int, error) {
	if !s.async.Load() {
		return s.blockingWrite(p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if s.corked || s.draining {
		s.pendLocked(p)
		return len(p), nil
	}
	n, err := s.try.write(p)
	if err != nil {
		s.err = err
		return n, err
	}
	if n < len(p) {
		s.pendLocked(p[n:])
		s.drainLocked()
	}
	return len(p), nil
}

func (s *socket) pendLocked(p []byte) {
	s.pending = append(room(s.pending, len(p)), p...)
	s.size.Add(int64(len(p)))
}

// cork collects what is written until uncork, which gives it to the kernel in one piece: TLS writes record by record.
func (s *socket) cork() {
	s.mu.Lock()
	s.corked = true
	s.pending = room(s.pending, corkLen)
	s.mu.Unlock()
}

func (s *socket) uncork() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.corked = false
	if s.err != nil || s.draining {
		return s.err
	}
	n, err := s.try.write(s.pending)
	s.size.Add(-int64(n))
	if err != nil {
		s.err = err
		return err
	}
	if n == len(s.pending) {
		putBuffer(s.pending)
		s.pending = nil
		return nil
	}
	s.pending = s.pending[:copy(s.pending, s.pending[n:])]
	s.drainLocked()
	return nil
}

func (s *socket) drainLocked() {
	s.draining = true
	s.full.Add(1)
	go s.drain()
}

// drain writes what is pending and blocks while the kernel is full. It ends when nothing is pending or nothing can be written.
func (s *socket) drain() {
	for {
		s.mu.Lock()
		b := s.pending
		s.pending = nil
		if len(b) == 0 || s.err != nil {
			s.draining = false
			closing := s.closing || s.err != nil
			_ = s.Conn.SetWriteDeadline(time.Time{})
			s.mu.Unlock()
			s.drained() // knows why before the reader hears that it is closed
			if closing {
				_ = s.Conn.Close()
			}
			return
		}
		s.mu.Unlock()
		err := s.writeAll(b)
		putBuffer(b)
		if err != nil {
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
			continue
		}
		s.drained()
	}
}

// writeAll fails when the kernel has taken nothing for s.timeout.
func (s *socket) writeAll(b []byte) error {
	for len(b) > 0 {
		n, err := writeSome(s.Conn, b, s.timeout)
		if err != nil {
			return err
		}
		s.size.Add(-int64(n))
		b = b[n:]
	}
	return nil
}

// writeSome writes to a connection that blocks. It is an error if nothing could be written within timeout (0: any time).
func writeSome(c net.Conn, b []byte, timeout time.Duration) (int, error) {
	if timeout > 0 {
		_ = c.SetWriteDeadline(time.Now().Add(timeout))
	}
	n, err := c.Write(b)
	if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return n, err
}

// Close closes the connection once nothing is pending; it does not wait for that.
func (s *socket) Close() error {
	s.mu.Lock()
	s.closing = true
	draining := s.draining
	s.mu.Unlock()
	if draining {
		return nil
	}
	return s.Conn.Close()
}

// SetWriteDeadline does nothing once Write does not block: TLS sets one to send its farewell, and it must not be able to cut short
// what is pending.
func (s *socket) SetWriteDeadline(t time.Time) error {
	if s.async.Load() {
		return nil
	}
	w := &s.writing
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return s.Conn.SetWriteDeadline(earlier(w.deadline, w.until))
}

func (s *socket) SetDeadline(t time.Time) error {
	return errors.Join(s.SetWriteDeadline(t), s.Conn.SetReadDeadline(t))
}

// blockedWrite is what bounds a Write that blocks.
type blockedWrite struct {
	mu       sync.Mutex
	deadline time.Time // set from outside
	until    time.Time // what patience leaves the Write under way; zero when there is none
}

// blockingWrite is Write before startAsync: for the handshake and for HTTP/1.1. TLS writes record by record, of 16 KiB at most, so a client
// has s.patience for each: the deadline moves on as it reads.
func (s *socket) blockingWrite(p []byte) (int, error) {
	patience := time.Duration(s.patience.Load())
	if patience == 0 {
		return s.Conn.Write(p)
	}
	s.bound(time.Now().Add(patience))
	defer s.bound(time.Time{})
	return s.Conn.Write(p)
}

func (s *socket) bound(until time.Time) {
	w := &s.writing
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = until
	_ = s.Conn.SetWriteDeadline(earlier(w.deadline, w.until)) // the Write says what is wrong
}

// earlier returns the earlier of two deadlines, of which the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// failure returns why nothing can be written any more, nil if it can.
func (s *socket) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
