// Package warm runs short pieces of work on goroutines that have run others before. A goroutine starts with a stack of a few kilobytes, and the
// runtime copies it each time it has to grow: a request to the API server outgrows it four times. In a cluster that makes pods
// that was six percent of the CPU. A goroutine that has done such work has the stack that the next piece needs.
//
// The garbage collector halves the stack of a goroutine that uses little of it, so what idle ones hold becomes small when nothing
// happens.
package warm

import "sync"

// keep is how many goroutines of a Pool may be idle. It is about what a busy server of a few cores has under way.
const keep = 64

// Pool starts goroutines, and keeps some that have done their work for what comes next. Its owner closes it. A nil Pool keeps none. It
// does not bound how many run.
type Pool struct {
	mu     sync.Mutex
	idle   []chan func() // each of a goroutine that waits for work; the last has worked last
	closed bool
}

// Go runs f in a goroutine, also when the Pool is closed.
func (p *Pool) Go(f func()) {
	if p == nil {
		go f()
		return
	}
	p.mu.Lock()
	last := len(p.idle) - 1
	if last < 0 {
		p.mu.Unlock()
		go p.run(f)
		return
	}
	next := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	p.mu.Unlock()
	next <- f
}

// run does f, and then what Go brings for as long as the goroutine is kept.
func (p *Pool) run(f func()) {
	f()
	for next := make(chan func(), 1); p.park(next); {
		if f = <-next; f == nil {
			return
		}
		f()
		f = nil // it may hold a request, say, while nothing comes
	}
}

// park makes next the last of the idle ones, unless there are enough.
func (p *Pool) park(next chan func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= keep {
		return false
	}
	p.idle = append(p.idle, next)
	return true
}

// Close ends the idle goroutines. Those that work end after that.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, next := range p.idle {
		close(next)
	}
	p.idle = nil
}
