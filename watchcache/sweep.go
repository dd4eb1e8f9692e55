package watchcache

import (
	"context"
	"time"
)

// markEvery is how often the revision is remembered for the horizon.
const markEvery = 10 * time.Second

// sweepAll does, once a second, what time and not an event brings about.
func (s *Server) sweepAll(ctx context.Context) error {
	tick := time.NewTicker(s.tuning.sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sweep()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sweep trims the windows by age and ends the cursors that have fallen out of them unnoticed.
func (s *Server) sweep() {
	s.mu.Lock()
	caches := append([]*Cache(nil), s.caches...)
	s.moveHorizon()
	s.mu.Unlock()
	for _, c := range caches {
		for _, expired := range c.sweep() {
			expired()
		}
	}
}

// moveHorizon remembers the revision and finds the one of Window.Age ago.
func (s *Server) moveHorizon() {
	now := s.tuning.now()
	if n := len(s.past); n > 0 && now.Sub(s.past[n-1].at) >= markEvery {
		s.past = append(s.past, moment{now, s.rev.Load()})
	}
	gone := 0
	for gone < len(s.past) && now.Sub(s.past[gone].at) > s.cfg.Window.Age {
		s.horizon.Store(s.past[gone].rev)
		gone++
	}
	s.past = append(s.past[:0], s.past[gone:]...)
}

// sweep returns the calls to make for cursors that have just expired.
func (c *Cache) sweep() (expired []func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.log
	if l == nil {
		return nil
	}
	now := c.server.tuning.now()
	l.settle(now)
	l.trim(now, c.current.Load())
	if !l.trimmed {
		return nil
	}
	l.trimmed = false
	l.all(func(b *branch) {
		for _, cur := range b.cursors {
			if cur.lost(l.oldest) && cur.expire() {
				cur.initial.Store(nil)
				if cur.onExpired != nil {
					expired = append(expired, cur.onExpired)
				}
			}
		}
	})
	return expired
}

// lost reports whether events that the cursor needs have left the window. A cursor that still reads its initial events
// is lost when their revision has left the window, even if its own branch has been quiet: it would hold on to
// an old tree for as long as it pleases.
func (c *Cursor) lost(oldest int64) bool {
	if c.pos.Load().next.Load() == outOfWindow {
		return true
	}
	if u := c.behind.Load(); u != nil && u.chunk.Load().next.Load() == chunkGone {
		return true
	}
	return c.initial.Load() != nil && c.after < oldest
}
