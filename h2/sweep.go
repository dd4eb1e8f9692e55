package h2

import (
	"os"
	"time"

	"golang.org/x/net/http2"
)

// watch is what the sweep remembers of a connection between two looks, counted in sweeps. Guarded by conn.mu.
type watch struct {
	looks  uint32        // how often the sweep has looked
	frames uint64        // conn.frames when it last moved
	still  time.Duration // since it moved
	pinged bool          // a PING is on its way; still has been set back to count the answer's time
	idle   time.Duration // without a stream
	since  time.Duration // since GOAWAY
	second time.Duration // since the budgets were refilled
}

var keepAlivePing = [8]byte{'k', 'e', 'e', 'p', 'a', 'l', 'i', 'v'}

// sweep looks at all connections at every tick until there are none. One goroutine with one timer is cheaper than three timers for
// each connection; what it measures is exact to a tick.
func (s *Server) sweep(tick time.Duration, idle <-chan struct{}) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var conns []*conn // kept from tick to tick
	for {
		select {
		case <-idle:
			return
		case <-ticker.C:
			conns = s.snapshot(conns[:0])
			for _, c := range conns {
				c.look(tick)
			}
			clear(conns)
		}
	}
}

// look does what time requires of a connection.
func (c *conn) look(tick time.Duration) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	w := &c.watch
	w.looks++
	if w.second += tick; w.second >= time.Second {
		w.second = 0
		c.guard.refill()
	}
	if frames := c.frames.Load(); frames != w.frames {
		w.frames, w.still, w.pinged = frames, 0, false
	} else {
		w.still += tick
	}
	if c.lookReadLocked(w) || c.lookIdleLocked(w, tick) {
		c.unlock()
		c.abort()
		return
	}
	c.lookStalledLocked(tick)
	c.wakeLocked() // a detached stream may have been woken and have nothing to send any more
	c.countLocked()
	if c.limits.read > 0 && c.bodies > 0 {
		c.lookBodiesLocked(tick)
	}
	c.unlock()
}

// lookBodiesLocked gives up bodies that do not come to their end. It looks at every stream of a connection that has a body, but not
// often: the bodies of most are there before the first look.
func (c *conn) lookBodiesLocked(tick time.Duration) {
	for _, st := range c.streams {
		b := st.body
		if b == nil || b.eof || b.closed || b.patient {
			continue
		}
		if b.age += tick; b.age > c.limits.read && b.err == nil {
			b.err = os.ErrDeadlineExceeded
			c.srv.counters.bodies.Add(1)
			st.cond.Broadcast()
		}
	}
}

// lookReadLocked reports whether the client has fallen silent for good.
func (c *conn) lookReadLocked(w *watch) (dead bool) {
	l := c.limits
	switch {
	case w.frames%2 == 1: // a frame has begun
		if w.still >= l.frame {
			c.srv.counters.timeouts.Add(1)
			return true
		}
	case w.pinged && w.still >= l.pingTimeout:
		c.srv.counters.pingsLost.Add(1)
		return true
	case !w.pinged && l.pingInterval > 0 && w.frames > 0 && w.still >= l.pingInterval:
		w.pinged, w.still = true, 0
		c.appendPing(false, keepAlivePing)
		c.flushLocked()
	}
	return false
}

// lookIdleLocked ends connections without streams, and those whose end has begun.
func (c *conn) lookIdleLocked(w *watch, tick time.Duration) (dead bool) {
	if len(c.streams) > 0 || c.handlers > 0 {
		w.idle = 0
	} else if w.idle += tick; c.limits.idle > 0 && w.idle > c.limits.idle && c.goAway == goAwayNot {
		c.goAway = goAwayWarned // nothing is open: the next step comes at once
	}
	switch c.goAway {
	case goAwayWarned:
		if w.since += tick; w.since > time.Second || w.idle > c.limits.idle && c.limits.idle > 0 {
			c.decideLocked()
			w.since = 0
		}
	case goAwayLast:
		w.since += tick
		return w.since > lingerTime+2*tick
	}
	return false
}

// lookStalledLocked ends streams whose handler waits for a window that does not open.
func (c *conn) lookStalledLocked(tick time.Duration) {
	if c.limits.write == 0 {
		return
	}
	var stalled []*stream
	for _, l := range []*line{&c.lines.headers, &c.lines.data, &c.lines.shut} {
		for st := l.first; st != nil; st = st.next {
			if !st.waiting || st.patient {
				continue
			}
			if st.stalled += tick; st.stalled > c.limits.write {
				stalled = append(stalled, st)
			}
		}
	}
	for _, st := range stalled { // what one leaves may wake others
		c.srv.counters.stalled.Add(1)
		st.weReset = true
		c.appendReset(st.id, http2.ErrCodeCancel)
		st.endLocked(errStalledWrite)
	}
	if len(stalled) > 0 {
		c.flushLocked()
	}
}
