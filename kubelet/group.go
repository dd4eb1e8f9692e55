package kubelet

import (
	"context"
	"sync"
	"time"

	"vigil/internal/warm"
)

// group runs goroutines and waits for them. Unlike with a sync.WaitGroup, a timer may want to start one at any time: when all have
// ended and somebody waits, nothing is started any more.
type group struct {
	workers *warm.Pool // they are of it; nil: of none

	mu     sync.Mutex
	n      int           // that run
	idle   chan struct{} // closed when none does; nil while nobody waits
	closed bool          // nothing is started any more
}

// Go runs f in a goroutine, unless the group has ended.
func (g *group) Go(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.n++
	g.workers.Go(func() {
		defer g.done()
		f()
	})
}

func (g *group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.n == 0 && g.idle != nil {
		g.closed = true
		close(g.idle)
	}
}

// Wait ends the group when no goroutine runs any more, those included that running ones start. It is called once.
func (g *group) Wait() {
	g.mu.Lock()
	if g.n == 0 {
		g.closed = true
		g.mu.Unlock()
		return
	}
	g.idle = make(chan struct{})
	g.mu.Unlock()
	<-g.idle
}

// every calls f at once and then again and again, each time after as long as f says, until ctx ends. Between two calls there is no
// goroutine: a process may have thousands of nodes, which sleep most of the time.
func (g *group) every(ctx context.Context, f func() (wait time.Duration)) {
	g.Go(func() {
		if ctx.Err() != nil {
			return
		}
		wait := f()
		time.AfterFunc(wait, func() {
			if ctx.Err() == nil {
				g.every(ctx, f)
			}
		})
	})
}
