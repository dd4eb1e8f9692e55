package watchcache

import (
	"vigil/object"
)

// EventType is what happened to an object as the watcher's selection sees it. The values are the wire's.
type EventType string

// The types of events. A Bookmark comes only at the end of the initial events.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
)

// Event is what a Cursor returns.
type Event struct {
	Type EventType
	// Object is shared with all readers. Its revision is Rev, except in an initial Added event, where it is that of
	// the object's last change, as Rev is. Deleted carries the content before the event. Nil in a Bookmark.
	Object *object.Version
	// Rev is the resource version of the event: a safe place to resume, except in initial events before their Bookmark.
	Rev int64
}

// WatchOptions say what a watch delivers and where it starts.
type WatchOptions struct {
	Selection Selection

	// After starts the watch behind a revision: events with a greater one are delivered. It may be ahead of the feed:
	// then nothing is delivered until there are greater ones. Ignored with Initial.
	After int64

	// Initial, if not nil, makes the watch begin with an Added event, in key order, for each selected object of this
	// snapshot of the same cache; then come the events after the snapshot's revision.
	Initial *Snapshot
	// EndBookmark asks for a Bookmark behind the initial events, with the snapshot's revision.
	EndBookmark bool

	// OnExpired, if not nil, is called once when the cursor has fallen out of the window and Next has not said so yet,
	// because it is not called: a watcher that does not read. It is called from the server's own goroutine, perhaps
	// while Close is under way, and must not block.
	OnExpired func()
}

// Watch starts a watch. The cursor costs a few hundred bytes and no goroutine; what it has not read costs nothing. It
// fails with ErrNotReady, with ErrRemoved, with ErrExpired when the start has left the window, and with ErrBroken when an object that
// belongs to the initial events cannot be read.
func (c *Cache) Watch(o WatchOptions) (*Cursor, error) {
	p := c.plan(o.Selection)
	after := o.After
	if o.Initial != nil {
		after = o.Initial.rev
		if err := o.Initial.state.brokenIn(p.covers); err != nil {
			return nil, err
		}
	}
	cur := &Cursor{cache: c, plan: p, after: after, complete: after, waitSlot: -1, onExpired: o.OnExpired}
	if o.Initial != nil {
		cur.initial.Store(&initial{walker: o.Initial.state.walk(p, p.prefix), bookmark: o.EndBookmark})
	}
	if err := c.enter(cur); err != nil {
		return nil, err
	}
	return cur, nil
}

// enter puts a new cursor on its branch, at the first event after cur.after.
func (c *Cache) enter(cur *Cursor) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.log
	if l == nil {
		return c.absent()
	}
	if cur.after < l.oldest {
		return &ExpiredError{Requested: cur.after, Oldest: l.oldest}
	}
	b := l.branch(cur.plan.branch)
	cur.branch = b
	cur.slot = len(b.cursors)
	b.cursors = append(b.cursors, cur)
	switch {
	case l.last <= cur.after:
		cur.pos.Store(b.tail)
	case b == l.main:
		cur.pos.Store(l.chunkAt(cur.after).before)
	case b.after <= cur.after:
		cur.pos.Store(b.head)
	default:
		// The branch is younger than the start: what happened between is on the main branch.
		cur.pos.Store(b.tail)
		at := l.chunkAt(cur.after)
		behind := &catchUp{at: at.before, end: l.main.tail, hash: l.hash(b.key)}
		behind.chunk.Store(at)
		cur.behind.Store(behind)
	}
	return nil
}

// leave takes a cursor off its branch.
func (c *Cache) leave(cur *Cursor) {
	b := cur.branch
	b.unwait(cur)
	c.mu.Lock()
	defer c.mu.Unlock()
	if cur.slot < 0 {
		return
	}
	last := len(b.cursors) - 1
	b.cursors[cur.slot] = b.cursors[last]
	b.cursors[cur.slot].slot = cur.slot
	b.cursors[last] = nil
	b.cursors = b.cursors[:last]
	cur.slot = -1
	if last == 0 && b.key.by != byAll && c.log != nil {
		c.log.drop(b)
	}
}
