package listmemory

import (
	"container/list"
	"sync/atomic"
	"time"
)

// Source is a cache whose snapshots responses refer to. It is compared by ==.
type Source interface {
	// Replaced is the size in bytes of all objects that have been replaced or deleted so far. It must not block.
	Replaced() int64
}

// Grant is what one response holds. A nil Grant holds nothing, and all methods do nothing.
type Grant struct {
	budget *Budget
	client *client
	source Source // may be nil

	blocked atomic.Int64 // when the write under way began, as Unix nanoseconds; 0 when there is none
	cutting atomic.Pointer[func()]

	// Guarded by Budget.mu.
	bytes int64
	mark  int64         // source.Replaced when it began
	place *list.Element // nil when released
	cut   bool
}

// Shrink lowers what is held to n bytes; more is not possible.
func (g *Grant) Shrink(n int64) {
	if g == nil {
		return
	}
	b := g.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.place != nil && n < g.bytes {
		b.used -= g.bytes - n
		g.client.used -= g.bytes - n
		g.bytes = n
		b.dispatchLocked()
	}
}

// Release gives everything back. It may be called more than once.
func (g *Grant) Release() {
	if g == nil {
		return
	}
	b := g.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.place == nil {
		return
	}
	b.grants.Remove(g.place)
	g.place = nil
	b.used -= g.bytes
	g.client.used -= g.bytes
	b.measureLocked()
	b.dispatchLocked()
	b.settleLocked(g.client)
}

// OnCut says how to end the response's writing from outside. cut must not block or call the budget.
func (g *Grant) OnCut(cut func()) {
	if g != nil {
		g.cutting.Store(&cut)
	}
}

// Writing is to be called before a write that may block, Written behind it.
func (g *Grant) Writing() {
	if g != nil {
		g.blocked.Store(time.Now().UnixNano())
	}
}

// Written is the end of what Writing began.
func (g *Grant) Written() {
	if g != nil {
		g.blocked.Store(0)
	}
}

// stalled reports whether a write has not ended since the given time.
func (g *Grant) stalled(since time.Time) bool {
	at := g.blocked.Load()
	return at != 0 && at < since.UnixNano()
}
