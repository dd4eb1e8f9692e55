package informer

import (
	"sync"
)

// deltaFIFO is what one handler has still to be told: for each object what changed since the handler last heard of it, in
// the order in which the objects first changed. It has at most one entry for each object, so a handler that lags gets the
// sum of what happened instead of every step, and what waits for it is bounded by the number of objects.
//
// What is summed up, and what is not: any number of updates become one, from the state the handler saw last to the newest.
// Births and deaths do not vanish, since controllers count them. An entry tells up to three lives of one name in order:
//
//	seen ── gone        the life the handler knows: its last state, and the state it was deleted in
//	ghost               a whole life that passed while it waited: added and deleted (the newest of several such lives)
//	now                 the life that goes on: the newest state
//
//	seen  gone  ghost now   what is delivered
//	 x                 x    OnUpdate(seen, now)
//	 x     x                OnDelete(gone)
//	 x     x           x    OnDelete(gone) OnAdd(now)
//	                   x    OnAdd(now)
//	             x          OnAdd(ghost) OnDelete(ghost)
//	 x     x     x     x    OnDelete(gone) OnAdd(ghost) OnDelete(ghost) OnAdd(now)
type deltaFIFO struct {
	wake chan struct{} // holds a token when something came since the handler last looked

	mu      sync.Mutex
	ring    []delta           // a power of two long; entry number n is at ring[n % len]
	head    uint64            // number of the oldest entry
	tail    uint64            // number of the next entry
	pending map[string]uint64 // by key: the number of its entry
	merged  uint64            // changes that were added to a waiting entry instead of making one
}

// delta is what a handler has to be told of one object.
type delta struct {
	key                    string
	seen, gone, ghost, now *Object
	initial                bool // now is part of the initial list
	stale                  bool // gone (or the ghost's end) was only noticed by a relist
}

// A process with a thousand nodes has thousands of handlers that are told of a few objects each, so a ring begins small.
const (
	minRing  = 8
	keepRing = 1024 // entries that an empty FIFO keeps room for
)

func newDeltaFIFO() *deltaFIFO {
	return &deltaFIFO{wake: make(chan struct{}, 1), pending: map[string]uint64{}}
}

// added says that o came into being.
func (q *deltaFIFO) added(o *Object, initial bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.waiting(o.key); d != nil {
		d.now = o
		return
	}
	q.push(delta{key: o.key, now: o, initial: initial})
}

// updated says that old became o.
func (q *deltaFIFO) updated(old, o *Object) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.waiting(o.key); d != nil {
		d.now = o
		return
	}
	q.push(delta{key: o.key, seen: old, now: o})
}

// deleted says that old is gone and last is its final state (old itself when stale).
func (q *deltaFIFO) deleted(old, last *Object, stale bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.waiting(last.key)
	if d == nil {
		q.push(delta{key: last.key, seen: old, gone: last, stale: stale})
		return
	}
	d.stale = stale
	if d.seen != nil && d.gone == nil {
		d.gone = last
	} else {
		d.ghost = last
	}
	d.now = nil
}

// resync says that o is to be delivered again although it did not change.
func (q *deltaFIFO) resync(o *Object) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.pending[o.key]; !ok {
		q.push(delta{key: o.key, seen: o, now: o})
	}
}

// waiting returns the entry of a key, to be changed, or nil.
func (q *deltaFIFO) waiting(key string) *delta {
	n, ok := q.pending[key]
	if !ok {
		return nil
	}
	q.merged++
	return &q.ring[n&uint64(len(q.ring)-1)]
}

func (q *deltaFIFO) push(d delta) {
	if q.tail-q.head == uint64(len(q.ring)) {
		q.grow()
	}
	q.ring[q.tail&uint64(len(q.ring)-1)] = d
	q.pending[d.key] = q.tail
	q.tail++
}

func (q *deltaFIFO) grow() {
	grown := make([]delta, max(minRing, 2*len(q.ring)))
	for n := q.head; n < q.tail; n++ {
		grown[n&uint64(len(grown)-1)] = q.ring[n&uint64(len(q.ring)-1)]
	}
	q.ring = grown
}

// pop takes the oldest entry.
func (q *deltaFIFO) pop() (delta, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == q.tail {
		if len(q.ring) > keepRing { // what the initial list needed is not needed again
			q.ring, q.pending = nil, map[string]uint64{}
		}
		return delta{}, false
	}
	at := &q.ring[q.head&uint64(len(q.ring)-1)]
	d := *at
	*at = delta{}
	q.head++
	delete(q.pending, d.key)
	return d, true
}

// depth is the number of objects that the handler has to be told about, and how many changes it was spared so far.
func (q *deltaFIFO) depth() (waiting int, merged uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int(q.tail - q.head), q.merged
}

// signal wakes the handler if it sleeps.
func (q *deltaFIFO) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
