package watchcache

import (
	"errors"
	"fmt"
	"slices"
)

// errMoved says that what was to be looked at has left the window meanwhile.
var errMoved = errors.New("it moves on faster than it can be checked")

// view is the window of a cache at one moment, with what of it can change copied.
type view struct {
	cache          *Cache
	log            *eventLog // for what of it never changes
	current        *state
	oldest, newest int64
	chunks         []chunkView
	tail           *link // the newest on the main branch
	branches       map[branchKey]*branchView
}

type chunkView struct {
	*chunk
	first  *link // nil: none yet
	state  *state
	memo   *state // nil: none
	events int
	marks  []mark
	closed bool
}

// branchView is a branch, and how far a walk along the main branch has come on it.
type branchView struct {
	after      int64
	head, tail *link
	at         *link
}

// view returns the window as it is now, nil before the cache is loaded. It checks what only the lock keeps as it is: sums, links
// between chunks, and the places of the cursors.
func (c *Cache) view() (*view, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.log
	if l == nil {
		return nil, nil
	}
	v := &view{cache: c, log: l, current: c.current.Load(), oldest: l.oldest, newest: l.newest, tail: l.main.tail, branches: map[branchKey]*branchView{}}
	events, bytes := 0, int64(0)
	for i, in := range l.chunks {
		events += in.events
		bytes += in.bytes
		next := in.next.Load()
		closed := i+1 < len(l.chunks)
		if closed && next != l.chunks[i+1] || !closed && next != nil {
			return nil, fmt.Errorf("chunk %d of %d is not followed by the next", i, len(l.chunks))
		}
		v.chunks = append(v.chunks, chunkView{chunk: in, first: in.before.next.Load(), state: in.state, memo: in.memo.Load(),
			events: in.events, marks: slices.Clone(in.marks), closed: closed})
	}
	if events != l.events || bytes != l.bytes {
		return nil, fmt.Errorf("it counts %d events and %d bytes, its chunks %d and %d", l.events, l.bytes, events, bytes)
	}
	if l.oldest != l.chunks[0].after || l.oldest < l.main.after || l.chunks[0].before != l.main.head {
		return nil, fmt.Errorf("it begins after %d, its first chunk after %d, its main branch after %d", l.oldest, l.chunks[0].after, l.main.after)
	}
	if l.last > l.newest {
		return nil, fmt.Errorf("the newest event is at %d, the newest event or mark at %d", l.last, l.newest)
	}
	var err error
	l.all(func(b *branch) {
		if v.branches[b.key] != nil {
			err = fmt.Errorf("two branches of %s", b.key.describe(c.res))
		}
		v.branches[b.key] = &branchView{after: b.after, head: b.head, tail: b.tail, at: b.head}
		if cursors := b.check(); cursors != nil {
			err = fmt.Errorf("branch of %s: %w", b.key.describe(c.res), cursors)
		}
	})
	return v, err
}

// check checks that the branch and its cursors know of each other. Cache.mu is held.
func (b *branch) check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range b.cursors {
		if c.branch != b || c.slot != i {
			return fmt.Errorf("cursor %d believes to be number %d", i, c.slot)
		}
	}
	for i, w := range b.waiting {
		if w.cursor.branch != b || w.cursor.waitSlot != i {
			return fmt.Errorf("waiting cursor %d believes to be number %d", i, w.cursor.waitSlot)
		}
	}
	if b.key.by != byAll && len(b.cursors) == 0 {
		return errors.New("nobody watches there")
	}
	return nil
}

// check walks along the window and makes each content that it keeps from the one before. It fails with errMoved when the window moves on faster.
func (v *view) check(k *contentChecker) error {
	base := v.chunks[0].state
	r := &replay{e: base.edit(v.cache.res.Indexes), after: base.rev}
	at := v.chunks[0].before
	for i := range v.chunks {
		in := &v.chunks[i]
		if in.before != at {
			return fmt.Errorf("chunk %d begins elsewhere than the one before ends", i)
		}
		if err := k.state(in.state); err != nil {
			return fmt.Errorf("content before chunk %d: %w", i, err)
		}
		if err := same(r.e.state(), in.state); err != nil {
			return fmt.Errorf("content before chunk %d is not what the events before it make: %w", i, err)
		}
		last, err := v.checkChunk(in, r, k)
		if err != nil {
			return fmt.Errorf("chunk %d of %d: %w", i, len(v.chunks), err)
		}
		if last != nil {
			at = last
		}
	}
	if at != v.tail {
		return errors.New("the chunks have fewer events than the main branch")
	}
	if err := same(r.e.state(), v.current); err != nil {
		return fmt.Errorf("the newest content is not what the events make: %w", err)
	}
	for key, b := range v.branches {
		if key.by != byAll && b.at != b.tail {
			return fmt.Errorf("branch of %s ends with an event that is not in the window", key.describe(v.cache.res))
		}
	}
	return nil
}

// checkChunk checks the events of a chunk and takes r to its end. It returns the last link of the chunk on the main branch, nil when it has none.
func (v *view) checkChunk(in *chunkView, r *replay, k *contentChecker) (last *link, err error) {
	r.marks = in.marks
	rev, memo := in.after, in.memo
	checkMemo := func(next int64) error {
		if memo == nil || next <= memo.rev {
			return nil
		}
		r.marksTo(memo.rev)
		was := memo
		memo = nil
		if err := k.state(was); err != nil {
			return fmt.Errorf("content at %d: %w", was.rev, err)
		}
		if err := same(r.e.state(), was); err != nil {
			return fmt.Errorf("content at %d is not what the events make: %w", was.rev, err)
		}
		return nil
	}
	at := in.first
	for n := range in.events {
		if at == nil {
			return nil, fmt.Errorf("%d events, want %d", n, in.events)
		}
		if at == outOfWindow {
			return nil, errMoved
		}
		ev := at.ev
		if err := checkMemo(ev.rev); err != nil {
			return nil, err
		}
		if ev.rev < rev || ev.rev > v.newest {
			return nil, fmt.Errorf("event at %d behind one at %d", ev.rev, rev)
		}
		rev = ev.rev
		if err := v.checkEvent(in, at); err != nil {
			return nil, fmt.Errorf("event at %d: %w", ev.rev, err)
		}
		r.event(ev)
		last, at = at, at.next.Load()
	}
	if err := checkMemo(v.newest + 1); err != nil {
		return nil, err
	}
	r.marksTo(v.newest)
	return last, nil
}

// checkEvent checks an event, and that it comes next on each branch that it concerns.
func (v *view) checkEvent(in *chunkView, at *link) (err error) {
	ev := at.ev
	old, cur := ev.old.Version != nil, ev.cur.Version != nil
	switch {
	case at != &ev.main:
		return errors.New("not at its own place on the main branch")
	case !old && !cur || at.old != old || at.cur != cur:
		return errors.New("neither before nor after, or its place on the main branch says otherwise")
	case old && ev.old.Revision() >= ev.rev:
		return fmt.Errorf("follows a version at %d", ev.old.Revision())
	case cur && ev.cur.Revision() != ev.rev:
		return fmt.Errorf("has a version at %d", ev.cur.Revision())
	case old && cur && ev.old.Key() != ev.cur.Key():
		return fmt.Errorf("leads from %s to %s", ev.old.Key(), ev.cur.Key())
	}
	var hashes []uint64
	v.log.concerned(ev, func(key branchKey, old, cur bool) {
		hash := v.log.hash(key)
		hashes = append(hashes, hash)
		if in.closed && !in.keys.has(hash) {
			err = fmt.Errorf("its chunk does not know of %s", key.describe(v.cache.res))
		}
		if b := v.branches[key]; b != nil && err == nil {
			err = b.step(ev, old, cur)
			if err != nil && !errors.Is(err, errMoved) {
				err = fmt.Errorf("branch of %s: %w", key.describe(v.cache.res), err)
			}
		}
	})
	if err == nil && !slices.Equal(hashes, ev.branches) {
		err = errors.New("concerns other branches than it says")
	}
	return err
}

// step goes on to the event, if the branch is old enough to have it.
func (b *branchView) step(ev *event, old, cur bool) error {
	if b.at == b.tail {
		if ev.rev > b.after {
			return errors.New("lacks the event")
		}
		return nil
	}
	next := b.at.next.Load()
	switch {
	case next == nil:
		return errors.New("ends before its tail")
	case next == outOfWindow:
		return errMoved
	case next.ev != ev:
		if ev.rev > b.after {
			return errors.New("has another event in its place")
		}
		return nil
	case next.old != old || next.cur != cur:
		return errors.New("says otherwise what it is there")
	}
	b.at = next
	return nil
}
