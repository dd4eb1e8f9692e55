package informer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"vigil/internal/panics"
)

// Registration is one handler's place in an informer.
type Registration struct {
	inf     *Informer
	handler EventHandler
	resync  time.Duration // 0: never
	queue   *deltaFIFO

	initialLeft atomic.Int64  // initial objects not yet delivered, plus one until the initial list is queued
	synced      chan struct{} // closed when they all are
	syncOnce    sync.Once
	removed     chan struct{}
	removeOnce  sync.Once

	pause time.Duration // after the handler's last panic; 0 when its last call returned. Used by its goroutine only
}

// HasSynced says that the handler has been told, and has dealt with, every object that was there when it joined.
func (r *Registration) HasSynced() bool {
	select {
	case <-r.synced:
		return true
	default:
		return false
	}
}

// Synced is closed when HasSynced becomes true.
func (r *Registration) Synced() <-chan struct{} { return r.synced }

// Waiting is the number of objects that the handler has still to be told about.
func (r *Registration) Waiting() int {
	n, _ := r.queue.depth()
	return n
}

// Merged is the number of changes that the handler was not told of singly because it was slower than they came.
func (r *Registration) Merged() uint64 {
	_, n := r.queue.depth()
	return n
}

// Remove ends the handler: after it returns at most the call that is under way is finished.
func (r *Registration) Remove() {
	r.removeOnce.Do(func() { close(r.removed) })
	r.inf.removeHandler(r)
}

func newRegistration(inf *Informer, h EventHandler, resync time.Duration) *Registration {
	r := &Registration{
		inf: inf, handler: h, resync: resync, queue: newDeltaFIFO(),
		synced: make(chan struct{}), removed: make(chan struct{}),
	}
	r.initialLeft.Store(1)
	return r
}

// initialQueued says that the whole initial list, n objects, is in the queue.
func (r *Registration) initialQueued(n int) { r.initialDone(1 - int64(n)) }

func (r *Registration) initialDone(n int64) {
	if r.initialLeft.Add(-n) == 0 {
		r.syncOnce.Do(func() { close(r.synced) })
	}
}

// tell tells the handler of an entry of its queue. A handler that panics is told of the object as it is then once more, after a time that
// doubles with each panic in a row.
func (r *Registration) tell(d *delta) {
	defer func() {
		value := recover()
		if value == nil {
			r.pause = 0
			return
		}
		panics.Recovered(r.inf.logger, panics.Handler, value, "object", d.key)
		r.pause = min(max(2*r.pause, tellAgainFirst), tellAgainMost)
		time.AfterFunc(r.pause, func() { r.inf.tellAgain(r, d.key) })
	}()
	r.handler.deliver(d)
}

// How long a handler is left alone about an object after it has panicked.
const (
	tellAgainFirst = 100 * time.Millisecond
	tellAgainMost  = time.Minute
)

// run tells the handler what is in its queue until ctx ends or the handler is removed.
func (r *Registration) run(ctx context.Context) {
	var resync <-chan time.Time
	if r.resync > 0 {
		t := time.NewTicker(r.resync)
		defer t.Stop()
		resync = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.removed:
			return
		case <-resync:
			r.inf.resync(r)
		case <-r.queue.wake:
		}
		for ctx.Err() == nil {
			d, ok := r.queue.pop()
			if !ok {
				break
			}
			select {
			case <-r.removed:
				return
			default:
			}
			r.tell(&d)
			if d.initial {
				r.initialDone(1)
			}
		}
	}
}
