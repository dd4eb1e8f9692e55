package watchcache

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
)

// Cursor is one watcher's place in the event log. Its methods are for one goroutine at a time, which may change from call
// to call. It owns no queue: what it has not read yet stays in the log, shared with all others, until it leaves the
// window, which ends the cursor with ErrExpired. Close it when done.
type Cursor struct {
	cache     *Cache
	plan      *plan
	branch    *branch
	onExpired func()

	pos     atomic.Pointer[link]    // the last link of the branch that has been passed; also read by the sweep
	initial atomic.Pointer[initial] // nil when the initial events are over; also cleared by the sweep
	behind  atomic.Pointer[catchUp] // nil when the cursor is on its branch
	expired atomic.Bool             // out of the window, and counted; set before the sweep clears initial

	after    int64 // events up to here are not for this cursor
	complete int64 // everything up to here has been returned or is not selected
	err      error
	handed   int // events returned since they were last counted

	slot     int // in branch.cursors; guarded by Cache.mu
	waitSlot int // in branch.waiting or -1; guarded by branch.mu
}

// initial is the part of a watch before the log.
type initial struct {
	walker   *walker
	events   int
	bookmark bool
}

// catchUp is the part of a watch between its start and the moment when it entered its branch.
type catchUp struct {
	chunk atomic.Pointer[chunk] // also read by the sweep
	at    *link                 // the last main link that has been passed
	end   *link                 // the last main link that is not on the branch
	hash  uint64                // of the branch
}

// Next returns the next event. It never blocks: ok is false when nothing is pending. The error is ErrExpired, for good,
// when events between the last one returned and the window have been lost, ErrRemoved, for good, when the cache has been removed, or ErrBroken, for good, when an object cannot be
// shown as the selection's type.
func (c *Cursor) Next() (ev Event, ok bool, err error) {
	ev, ok, err = c.next()
	if !ok || c.plan.as == nil || ev.Object == nil {
		return ev, ok, err
	}
	if ev.Object, c.err = c.plan.show(ev.Object); c.err != nil {
		return Event{}, false, c.err
	}
	return ev, true, nil
}

// next returns the next event as the cache has it.
func (c *Cursor) next() (ev Event, ok bool, err error) {
	if c.err != nil {
		return Event{}, false, c.err
	}
	if in := c.initial.Load(); in != nil {
		if ev, ok := c.nextInitial(in); ok || c.err != nil {
			return ev, ok, c.err
		}
	}
	if c.expired.Load() {
		return Event{}, false, c.fail()
	}
	if u := c.behind.Load(); u != nil {
		if ev, ok := c.nextBehind(u); ok || c.err != nil {
			return ev, ok, c.err
		}
	}
	for {
		at := c.pos.Load().next.Load()
		switch at {
		case nil:
			c.count()
			return Event{}, false, nil
		case outOfWindow:
			return Event{}, false, c.fail()
		}
		c.pos.Store(at)
		if at.ev.rev <= c.after {
			continue
		}
		c.complete = at.ev.rev
		if ev, ok := c.see(at.ev, at.old, at.cur); ok {
			c.handed++
			return ev, true, nil
		}
	}
}

// see returns the event as the cursor's selection sees it. old and cur say which sides are where the plan leads.
func (c *Cursor) see(e *event, old, cur bool) (Event, bool) {
	if !c.plan.trivial {
		old = old && c.plan.tries(e.old)
		cur = cur && c.plan.tries(e.cur)
	}
	switch {
	case old && cur:
		return Event{Modified, e.cur.Version, e.rev}, true
	case cur:
		return Event{Added, e.cur.Version, e.rev}, true
	case old:
		return Event{Deleted, e.leaving(), e.rev}, true
	}
	return Event{}, false
}

func (c *Cursor) nextInitial(in *initial) (Event, bool) {
	if c.pos.Load().next.Load() == outOfWindow {
		c.fail()
		return Event{}, false
	}
	if v, ok := in.walker.next(); ok {
		in.events++
		return Event{Added, v, v.Revision()}, true
	}
	c.initial.Store(nil)
	c.cache.metrics.initEvents.Add(float64(in.events))
	return Event{Type: Bookmark, Rev: c.after}, in.bookmark
}

// nextBehind walks the main branch, passing over chunks without events for the cursor's branch.
func (c *Cursor) nextBehind(u *catchUp) (Event, bool) {
	in := u.chunk.Load()
	for u.at != u.end {
		next := in.next.Load()
		switch {
		case next == chunkGone:
			c.fail()
			return Event{}, false
		case next != nil && (u.at == next.before || next.after <= u.end.ev.rev && !in.keys.has(u.hash)):
			u.at, in = next.before, next
			u.chunk.Store(in)
			continue
		}
		at := u.at.next.Load()
		if at == outOfWindow {
			c.fail()
			return Event{}, false
		}
		u.at = at
		if at.ev.rev <= c.after {
			continue
		}
		c.complete = at.ev.rev
		if !slices.Contains(at.ev.branches, u.hash) { // much cheaper than to look into the objects
			continue
		}
		old, cur := c.plan.sides(c.cache, at.ev)
		if !old && !cur {
			continue
		}
		if ev, ok := c.see(at.ev, old, cur); ok {
			c.handed++
			return ev, true
		}
	}
	c.complete = max(c.complete, u.end.ev.rev)
	c.behind.Store(nil)
	return Event{}, false
}

// sides says which sides of an event are where the plan leads: what a link says on the plan's branch.
func (p *plan) sides(c *Cache, e *event) (old, cur bool) {
	in := func(v item) bool {
		switch {
		case v.Version == nil:
			return false
		case p.branch.by >= byIndex:
			value, _ := v.Field(c.res.Indexes[p.branch.by-byIndex])
			return value == p.value
		case p.branch.by == byKey:
			return v.Key() == p.key
		case p.branch.by == byNamespace:
			return strings.HasPrefix(v.Key(), p.prefix)
		}
		return true
	}
	return in(e.old), in(e.cur)
}

// Notify asks for one call of fn as soon as Next may have something: at once, from this goroutine, if it has already,
// else from the goroutine that appends, once for however many events come together. fn must not block, nor add or remove caches. A second
// Notify before the call replaces fn. After Close fn may still be called once, if the call was under way.
func (c *Cursor) Notify(fn func()) {
	if c.err != nil || c.initial.Load() != nil || c.behind.Load() != nil || c.expired.Load() || !c.branch.wait(c, fn) {
		fn()
	}
}

// Wait blocks until Next may have something or ctx ends. It is for users with a goroutine for each watch.
func (c *Cursor) Wait(ctx context.Context) error {
	ready := make(chan struct{})
	c.Notify(func() { close(ready) })
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		c.branch.unwait(c)
		return context.Cause(ctx)
	}
}

// Progress returns the revision up to which everything selected has been returned by Next: a safe place to resume, fit
// for a bookmark. It is 0 as long as there is none: before the end of the initial events, and before the feed has
// come to the start of a watch that begins in the future.
func (c *Cursor) Progress() int64 {
	if c.initial.Load() != nil {
		return 0
	}
	published := c.cache.server.rev.Load() // before looking for more: all up to it is on the branch by now
	if c.err == nil && c.behind.Load() == nil && c.pos.Load().next.Load() == nil {
		c.complete = max(c.complete, published)
	}
	if c.complete > published && c.complete == c.after {
		return 0
	}
	at := c.pos.Load()
	if u := c.behind.Load(); u != nil {
		at = u.at
	}
	if next := at.next.Load(); next != nil && next.ev != nil && next.ev.rev == c.complete {
		return c.complete - 1 // the rest of a transaction is pending
	}
	return c.complete
}

// Close takes the cursor off the log. Next must not be called afterwards.
func (c *Cursor) Close() {
	c.cache.leave(c)
	c.count()
	c.initial.Store(nil)
	c.behind.Store(nil)
}

// fail ends the cursor because it has lost events, or because there will be none.
func (c *Cursor) fail() error {
	if c.cache.removed.Load() {
		c.err = ErrRemoved
		c.initial.Store(nil)
		c.behind.Store(nil)
		c.count()
		return c.err
	}
	c.err = &ExpiredError{Requested: c.complete, Oldest: c.cache.oldest()}
	c.initial.Store(nil)
	c.behind.Store(nil)
	c.expire()
	c.count()
	return c.err
}

// expire counts the cursor as ended by the window and reports whether it had not been before.
func (c *Cursor) expire() bool {
	if !c.expired.CompareAndSwap(false, true) {
		return false
	}
	c.cache.metrics.terminated.Inc()
	return true
}

func (c *Cursor) count() {
	if c.handed > 0 {
		c.cache.metrics.fanout.Add(float64(c.handed))
		c.handed = 0
	}
}
