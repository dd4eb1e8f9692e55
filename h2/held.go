package h2

import (
	"net/http"

	"golang.org/x/net/http2"
)

// What clients make the server hold is bounded three times: for a request (Server.MaxHeaderBytes), for a connection (Server.HeadersPerConn,
// UploadPerConn, MaxPending), and for all connections together that nobody has vouched for (Server.MaxStrangers). When these hold too
// much, the one that holds most is closed: whoever holds little is served, however many others attack.

const (
	handlerCost = 16 << 10 // what a running handler takes: stack, request, the beginning of a response
	heldStep    = 32 << 10 // by how much what a connection holds may differ from what the server has counted
	largeList   = 64 << 10 // a header list is large from here on
)

// Vouch says that the caller of the request that w answers is known: what its connection holds is not counted as a stranger's from now on.
// It does nothing to a w that is not, and does not wrap, one of this package's.
func Vouch(w http.ResponseWriter) {
	for {
		switch t := w.(type) {
		case *responseWriter:
			t.st.c.vouch()
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return
		}
	}
}

func (c *conn) vouch() {
	if c.vouched.Load() {
		return
	}
	c.mu.Lock()
	c.uncountLocked()
	c.unlock()
}

// uncountLocked takes a connection out of the count for good.
func (c *conn) uncountLocked() {
	if !c.vouched.Swap(true) {
		c.srv.counters.held.Add(-c.counted.Swap(0))
	}
}

// heldLocked returns how many bytes the connection holds for its client, about.
func (c *conn) heldLocked() int {
	unread := int(c.limits.connWindow - c.recv - c.consumed)
	return c.headerBytes + c.handlers*handlerCost + unread + c.pendingLocked()
}

// countLocked has the server count what the connection holds, unless somebody has vouched for it.
func (c *conn) countLocked() {
	if c.vouched.Load() {
		return
	}
	held := int64(c.heldLocked())
	if c.ended && c.handlers == 0 {
		c.uncountLocked()
		return
	}
	more := held - c.counted.Load()
	if -heldStep < more && more < heldStep {
		return
	}
	c.counted.Store(held)
	if c.srv.counters.held.Add(more) > int64(c.limits.strangers) && more > 0 {
		c.calls = append(c.calls, c.srv.relieve)
	}
}

// relieve closes the strangers' connections that hold most until those that are left hold no more than they may.
func (s *Server) relieve() {
	if !s.relieving.TryLock() {
		return // somebody is at it
	}
	defer s.relieving.Unlock()
	for s.counters.held.Load() > int64(s.resolve().strangers) {
		var most *conn
		for _, c := range s.snapshot(nil) {
			if n := c.counted.Load(); n > 0 && (most == nil || n > most.counted.Load()) {
				most = c
			}
		}
		if most == nil {
			return
		}
		most.mu.Lock()
		most.uncountLocked()
		most.failLocked(&connError{http2.ErrCodeEnhanceYourCalm, "strangers hold too much"})
		most.unlock()
	}
}

// holdLocked counts the header list of a new stream.
func (st *stream) holdLocked(n uint32) {
	st.headerBytes = n
	st.c.headerBytes += int(n)
	st.c.countLocked()
}

// releaseLocked gives up what a stream holds. It is called when its handler has returned and when it has ended, whichever is last.
func (st *stream) releaseLocked() {
	st.c.headerBytes -= int(st.headerBytes)
	st.headerBytes = 0
	st.c.countLocked()
}
