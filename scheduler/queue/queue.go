// Package queue holds the pods that wait for a node.
//
//	          Add                        Pop
//	(none) --------> active (heap) ------------> in a cycle --Done--> (none)
//	                   ^      ^                    |     |
//	      time is up   |      |   an event helps   |     | Retry (error), or Refuse while a helping event happened
//	                backoff <-+---- refused <------+     v
//	                   ^            (Refuse)          backoff
//	                   +---------------------------------+
//
// A refused pod waits for an event that its refusing filters named, or for MaxRefused, whatever comes first; then it
// waits out its backoff, which doubles with each attempt. An event that happens while a pod is in its cycle counts, so no
// wake-up is lost. Nothing is promised about pods of equal priority and age.
package queue

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
)

// Delays, as upstream's defaults (podInitialBackoffSeconds, podMaxBackoffSeconds, the flush of unschedulable pods).
const (
	InitialBackoff = time.Second
	MaxBackoff     = 10 * time.Second
	MaxRefused     = 5 * time.Minute

	flushInterval = 30 * time.Second
)

// Entry is a pod in the queue. It belongs to who popped it until Done, Retry or Refuse.
type Entry struct {
	Pod      *nodecache.Pod
	Since    time.Time // when the pod came
	Attempts int       // cycles so far

	state state
	index int             // in the heap of its state
	ready time.Time       // backoff: when it goes on; refused: when it is tried again in any case
	helps framework.Event // refused: what would help
	seen  uint64          // in a cycle: events counted when it began
	next  *nodecache.Pod  // in a cycle: a newer state that came meanwhile
	again bool            // in a cycle: and its spec is another
	gone  bool            // in a cycle: removed meanwhile
}

type state uint8

const (
	active state = iota
	backingOff
	refused
	inCycle
)

// Backoff is how long a pod waits between two attempts: Initial after the first, twice as long after each further one, at most Max. 0 are
// upstream's defaults.
type Backoff struct{ Initial, Max time.Duration }

// Queue is a priority queue of pods with backoff.
type Queue struct {
	pause   Backoff
	mu      sync.Mutex
	entries map[types.UID]*Entry
	active  entryHeap
	backoff entryHeap
	refused map[types.UID]*Entry
	flushed time.Time     // when refused was last searched for pods whose time is up
	wake    chan struct{} // holds one token when something changed that a waiting Pop must look at

	// history counts events by their bit, so that a cycle can tell which happened while it ran.
	happened [8]uint64
	events   uint64
}

// New makes an empty queue.
func New(pause Backoff) *Queue {
	pause = Backoff{Initial: cmp.Or(pause.Initial, InitialBackoff), Max: cmp.Or(pause.Max, MaxBackoff)}
	q := &Queue{pause: pause, entries: map[types.UID]*Entry{}, refused: map[types.UID]*Entry{}, wake: make(chan struct{}, 1)}
	q.active.before = func(a, b *Entry) bool {
		if a.Pod.Priority != b.Pod.Priority {
			return a.Pod.Priority > b.Pod.Priority
		}
		return a.Since.Before(b.Since)
	}
	q.backoff.before = func(a, b *Entry) bool { return a.ready.Before(b.ready) }
	return q
}

// Set adds an unassigned pod, or takes in a new state of one. A changed spec makes a refused pod try again at once.
func (q *Queue) Set(pod *nodecache.Pod, specChanged bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[pod.UID]
	if e == nil {
		e = &Entry{Pod: pod, Since: time.Now()}
		q.entries[pod.UID] = e
		q.push(e, active)
		return
	}
	if e.state == inCycle {
		e.next, e.gone, e.again = pod, false, e.again || specChanged
		return
	}
	e.Pod = pod
	switch {
	case e.state == active:
		heap.Fix(&q.active, e.index)
	case e.state == refused && specChanged:
		delete(q.refused, pod.UID)
		q.push(e, active)
	}
}

// Remove forgets a pod that was deleted or bound by somebody else.
func (q *Queue) Remove(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[uid]
	if e == nil {
		return
	}
	if e.state == inCycle {
		e.gone = true
		return
	}
	q.pull(e)
	delete(q.entries, uid)
}

// Pop waits for the pod that is to be scheduled next. It fails only when ctx ends.
func (q *Queue) Pop(ctx context.Context) (*Entry, error) {
	for {
		q.mu.Lock()
		now := time.Now()
		q.advance(now)
		if q.active.Len() > 0 {
			e := heap.Pop(&q.active).(*Entry)
			e.state, e.seen = inCycle, q.events
			e.Attempts++
			q.mu.Unlock()
			return e, nil
		}
		wait := q.nextDue(now)
		q.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-q.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// Done ends the cycle of a pod that needs no more scheduling.
func (q *Queue) Done(e *Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.entries, e.Pod.UID)
}

// Retry ends a cycle that failed for a reason outside the pod: it is tried again after its backoff. It does nothing for a cycle that has ended.
func (q *Queue) Retry(e *Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.state == inCycle && q.entries[e.Pod.UID] == e && q.settle(e) {
		q.delay(e)
	}
}

// Refuse ends the cycle of a pod that fits nowhere until one of the events happens.
func (q *Queue) Refuse(e *Entry, helps framework.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	changed := e.again
	if !q.settle(e) {
		return
	}
	if changed || q.happenedSince(e.seen, helps) {
		q.delay(e)
		return
	}
	e.helps, e.ready = helps, time.Now().Add(MaxRefused)
	e.state = refused
	q.refused[e.Pod.UID] = e
}

// Happened says that something happened in the cluster: refused pods that it may help go on.
func (q *Queue) Happened(event framework.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events++
	for bit := range q.happened {
		if event&(1<<bit) != 0 {
			q.happened[bit] = q.events
		}
	}
	for uid, e := range q.refused {
		if e.helps&event != 0 {
			delete(q.refused, uid)
			q.delay(e)
		}
	}
}

// Depths returns how many pods wait in each place, for metrics.
func (q *Queue) Depths() (active, backoff, refused int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.active.Len(), q.backoff.Len(), len(q.refused)
}

// settle takes in what happened to a pod during its cycle, and says whether it is still wanted.
func (q *Queue) settle(e *Entry) bool {
	if e.gone {
		delete(q.entries, e.Pod.UID)
		return false
	}
	if e.next != nil {
		e.Pod, e.next, e.again = e.next, nil, false
	}
	return true
}

// delay puts an entry into backoff. Time that it has spent refused counts.
func (q *Queue) delay(e *Entry) {
	backoff := min(q.pause.Initial, q.pause.Max)
	for range e.Attempts - 1 {
		if backoff >= q.pause.Max-backoff { // twice as much would be too long, or overflow
			backoff = q.pause.Max
			break
		}
		backoff *= 2
	}
	if e.state == refused {
		refusedAt := e.ready.Add(-MaxRefused)
		e.ready = refusedAt.Add(backoff)
	} else {
		e.ready = time.Now().Add(backoff)
	}
	q.push(e, backingOff)
}

func (q *Queue) push(e *Entry, to state) {
	e.state = to
	if to == active {
		heap.Push(&q.active, e)
	} else {
		heap.Push(&q.backoff, e)
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *Queue) pull(e *Entry) {
	switch e.state {
	case active:
		heap.Remove(&q.active, e.index)
	case backingOff:
		heap.Remove(&q.backoff, e.index)
	case refused:
		delete(q.refused, e.Pod.UID)
	}
}

// advance makes active what has waited long enough.
func (q *Queue) advance(now time.Time) {
	for q.backoff.Len() > 0 && !q.backoff.entries[0].ready.After(now) {
		q.push(heap.Pop(&q.backoff).(*Entry), active)
	}
	if now.Sub(q.flushed) < flushInterval {
		return
	}
	q.flushed = now
	for uid, e := range q.refused {
		if !e.ready.After(now) {
			delete(q.refused, uid)
			q.push(e, active)
		}
	}
}

// nextDue is how long Pop may sleep when nothing happens.
func (q *Queue) nextDue(now time.Time) time.Duration {
	wait := flushInterval
	if q.backoff.Len() > 0 {
		wait = min(wait, q.backoff.entries[0].ready.Sub(now))
	}
	return wait
}

func (q *Queue) happenedSince(seen uint64, events framework.Event) bool {
	for bit, at := range q.happened {
		if events&(1<<bit) != 0 && at > seen {
			return true
		}
	}
	return false
}
