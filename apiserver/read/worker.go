package read

import (
	"container/heap"
	"context"
	"log/slog"
	"sync"
	"time"

	"vigil/apiserver/metrics"
	"vigil/internal/panics"
)

// worker drives the watches of some connections. Whoever has something for one of them puts it on its connection's lane; the worker's
// goroutine takes lane after lane.
type worker struct {
	log    *slog.Logger
	wakeup chan struct{} // holds one: look at the queue

	mu          sync.Mutex // never held while calling anything
	lanes       map[any]*lane
	first, last *lane // the run queue
	asleep      bool  // the worker waits for wakeup
	stopped     bool

	// What follows is for the worker's goroutine only.
	clock    schedule // all watches, by when they have to look at the clock
	ready    []*driven
	frames   frames
	several  bool // of the watches of a connection: leave the bytes with it until all have been looked at
	draining bool
}

// lane is the watches of one connection. Guarded by worker.mu.
type lane struct {
	worker      *worker
	conn        any
	watches     int
	first, last *driven // those that are ready
	next        *lane   // in the run queue
	queued      bool
}

func newWorker(log *slog.Logger) *worker {
	return &worker{log: log, wakeup: make(chan struct{}, 1), lanes: map[any]*lane{}}
}

// admit takes a watch on the lane of its connection and wakes it. It reports false when the worker has stopped.
func (w *worker) admit(v *driven, conn any) bool {
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return false
	}
	l := w.lanes[conn]
	if l == nil {
		l = &lane{worker: w, conn: conn}
		w.lanes[conn] = l
	}
	l.watches++
	v.lane.Store(l)
	asleep := w.enqueueLocked(v)
	w.mu.Unlock()
	if asleep {
		w.wakeup <- struct{}{}
	}
	return true
}

func (w *worker) forget(l *lane) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.watches--; l.watches == 0 {
		delete(w.lanes, l.conn)
	}
}

// wake has the worker look at the watch. It may be called by anybody and does not wait for the worker.
func (v *driven) wake() {
	l := v.lane.Load()
	if l == nil {
		return // it has not been admitted and will be looked at then
	}
	w := l.worker
	w.mu.Lock()
	asleep := !v.ready && w.enqueueLocked(v)
	w.mu.Unlock()
	if asleep {
		w.wakeup <- struct{}{} // there is room: nobody else has found it asleep
	}
}

// enqueueLocked puts a watch on its lane's list, and the lane into the run queue. It reports whether the worker has to be woken.
func (w *worker) enqueueLocked(v *driven) (asleep bool) {
	l := v.lane.Load()
	v.ready = true
	if l.first == nil {
		l.first = v
	} else {
		l.last.next = v
	}
	l.last = v
	if !l.queued {
		l.queued = true
		if w.first == nil {
			w.first = l
		} else {
			w.last.next = l
		}
		w.last = l
	}
	asleep = w.asleep
	w.asleep = false
	return asleep && !w.stopped
}

// take takes the next lane off the run queue, and its watches into w.ready.
func (w *worker) take() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.first
	if l == nil {
		w.asleep = true
		return false
	}
	w.first, l.next = l.next, nil
	l.queued = false
	for v := l.first; v != nil; {
		next := v.next
		v.ready, v.next = false, nil
		w.ready = append(w.ready, v)
		v = next
	}
	l.first, l.last = nil, nil
	return true
}

// lanesAtOnce is how many lanes are looked at between two looks at the clock.
const lanesAtOnce = 32

func (w *worker) run(ctx context.Context, draining <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer w.stop()
	for {
		busy := true
		for n := 0; busy && n < lanesAtOnce; n++ {
			if busy = w.take(); busy {
				w.turn()
			}
		}
		next := w.tick(time.Now())
		if busy {
			select {
			case <-draining:
				draining = nil
				w.drain()
			default:
			}
			continue
		}
		timer.Reset(next)
		select {
		case <-w.wakeup:
			continue
		case <-timer.C:
		case <-draining:
			draining = nil
			w.drain()
		case <-ctx.Done():
			return
		}
		w.rouse()
	}
}

// rouse takes back that the worker is asleep.
func (w *worker) rouse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.asleep {
		<-w.wakeup // somebody has found it so
	}
	w.asleep = false
}

// turn gives each of the watches in w.ready, which are of one connection, a turn.
func (w *worker) turn() {
	w.several = len(w.ready) > 1
	for _, v := range w.ready {
		w.give(v)
	}
	if w.several {
		w.ready[0].out.Flush() // for all: it is the same connection
	}
	clear(w.ready)
	w.ready = w.ready[:0]
}

// give gives a watch its turn. One that panics is cut off; the others go on.
func (w *worker) give(v *driven) {
	defer func() {
		if p := recover(); p != nil {
			panics.Recovered(w.log, panics.Watch, p, "resource", v.res.Kind.GroupResource().String())
			v.res.Metrics.Aborted(metrics.Watch, v.scope)
			if !v.ended {
				v.end(w, true)
			}
		}
	}()
	v.turn(w)
}

func (w *worker) turnOf(v *driven) {
	w.ready = append(w.ready, v)
	w.turn()
}

// tick gives a turn to all watches that have waited for now, and returns how long it is until the next.
func (w *worker) tick(now time.Time) time.Duration {
	for len(w.clock) > 0 {
		v := w.clock[0]
		if wait := v.at.Sub(now); wait > 0 {
			return wait
		}
		v.due = true
		w.turnOf(v)
		if !v.ended && v.due { // it has more to send first, and stays due
			v.at = now.Add(10 * time.Millisecond)
			w.clock.moved(v)
		}
	}
	return time.Hour
}

// drain ends all watches, and those that come later.
func (w *worker) drain() {
	w.draining = true
	for _, v := range append([]*driven(nil), w.clock...) {
		w.turnOf(v)
	}
}

// stop cuts off what is left.
func (w *worker) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	for w.take() {
		for _, v := range w.ready {
			if !v.ended {
				v.end(w, true)
			}
		}
		w.ready = w.ready[:0]
	}
	for len(w.clock) > 0 {
		w.clock[0].end(w, true)
	}
}

// schedule is a heap of watches by time.
type schedule []*driven

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].at.Before(s[j].at) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].slot, s[j].slot = i, j
}

func (s *schedule) Push(x any) {
	v := x.(*driven)
	v.slot = len(*s)
	*s = append(*s, v)
}

func (s *schedule) Pop() any {
	last := len(*s) - 1
	v := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return v
}

func (s *schedule) add(v *driven) { heap.Push(s, v) }

// moved is to be called when v.at has changed.
func (s *schedule) moved(v *driven) { heap.Fix(s, v.slot) }

func (s *schedule) remove(v *driven) { heap.Remove(s, v.slot) }
