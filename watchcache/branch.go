package watchcache

import (
	"math"
	"sync"
	"sync/atomic"

	"vigil/object"
)

// event is one change of one object. old has no Version for a creation, cur none for a deletion. The window's events form a chain
// through their main links; everything but the chain is immutable.
type event struct {
	main     link
	rev      int64
	old, cur item                           // without a Version: none
	branches []uint64                       // hashes of the branches besides main that it belongs on, whether they exist or not; complete once appended
	gone     atomic.Pointer[object.Version] // see leaving; nil again once the event's chunk has settled
}

// leaving returns the previous content with the revision of the event, for those who see the object go: by deletion or
// out of their selection. It is made once for all who ask soon.
func (e *event) leaving() *object.Version {
	if v := e.gone.Load(); v != nil {
		return v
	}
	made := e.old.At(e.rev)
	if !e.gone.CompareAndSwap(nil, made) {
		if v := e.gone.Load(); v != nil {
			return v
		}
	}
	return made
}

func (e *event) key() string {
	if e.cur.Version != nil {
		return e.cur.Key()
	}
	return e.old.Key()
}

// link is an event's place on one branch. Appending sets next of the last link, once; trimming sets next of the link
// before the first to outOfWindow. So whoever stands at a link sees in next whether there is more, nothing yet, or a gap.
type link struct {
	ev       *event
	next     atomic.Pointer[link]
	old, cur bool // which sides of the event belong to the branch
}

// outOfWindow stands in for a successor that has been trimmed.
var outOfWindow = new(link)

// branchKey names a branch: everything, a namespace, one object, or one value of an indexed field.
type branchKey struct {
	by    branchKind
	value string
}

type branchKind uint8

const (
	byAll branchKind = iota
	byNamespace
	byKey
	byIndex // and the following: by position in Resource.Indexes
)

// branch is the part of the event log that concerns one group of watchers. All branches but the one of everything
// exist only while someone watches there.
//
//	head -> first in window -> ... -> tail -> nil
//
// head is the link before the window: a watcher that has seen it has missed nothing.
type branch struct {
	key branchKey

	// Guarded by Cache.mu.
	head, tail *link
	after      int64 // all events of the branch with a greater revision are on it
	cursors    []*Cursor
	touched    bool // in Cache.touched

	mu      sync.Mutex // may be taken while Cache.mu is held
	waiting []waiter
	spare   []waiter // an empty slice to use as waiting next
}

// waiter is a cursor that waits for the next link, and whom to tell.
type waiter struct {
	cursor *Cursor
	notify func()
}

func newBranch(key branchKey, after int64) *branch {
	head := new(link)
	return &branch{key: key, after: after, head: head, tail: head}
}

func (b *branch) appendLocked(l *link) {
	b.tail.next.Store(l)
	b.tail = l
}

// trimLocked takes the first event off if it is ev.
func (b *branch) trimLocked(ev *event) {
	first := b.head.next.Load()
	if first == nil || first.ev != ev {
		return
	}
	b.head.next.Store(outOfWindow)
	b.head, b.after = first, ev.rev
}

// endLocked makes every cursor on the branch run out of the window after what it can still reach.
func (b *branch) endLocked() {
	b.tail.next.Store(outOfWindow)
	b.after = math.MaxInt64
}

// wait registers c unless something is pending for it already.
func (b *branch) wait(c *Cursor, notify func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.pos.Load().next.Load() != nil {
		return false
	}
	if c.waitSlot >= 0 {
		b.waiting[c.waitSlot].notify = notify
		return true
	}
	c.waitSlot = len(b.waiting)
	b.waiting = append(b.waiting, waiter{c, notify})
	return true
}

// unwait takes c off the waiting.
func (b *branch) unwait(c *Cursor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.waitSlot < 0 {
		return
	}
	last := len(b.waiting) - 1
	b.waiting[c.waitSlot] = b.waiting[last]
	b.waiting[c.waitSlot].cursor.waitSlot = c.waitSlot
	b.waiting[last] = waiter{}
	b.waiting = b.waiting[:last]
	c.waitSlot = -1
}

// wake tells all who wait, each once for whatever has been appended since it began to wait.
func (b *branch) wake() {
	b.mu.Lock()
	woken := b.waiting
	for _, w := range woken {
		w.cursor.waitSlot = -1
	}
	b.waiting, b.spare = b.spare, nil
	b.mu.Unlock()
	for _, w := range woken {
		w.notify()
	}
	clear(woken)
	b.mu.Lock()
	b.spare = woken[:0]
	b.mu.Unlock()
}
