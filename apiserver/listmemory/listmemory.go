package listmemory

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Config bounds a budget. The zero value has the defaults.
type Config struct {
	// Total and PerClient are the limits in bytes. Default 256 MiB and a quarter of Total.
	Total, PerClient int64
	// Patience is how long a client may take no byte while others wait. Default 10 s.
	Patience time.Duration
}

// DefaultTotal is the default of Config.Total.
const DefaultTotal = 256 << 20

// Budget is the limits and who counts against them. It is safe for use by many goroutines.
type Budget struct {
	total, perClient int64
	patience         time.Duration

	mu       sync.Mutex // never held while calling anything but Source.Replaced
	used     int64      // by grants
	retained int64      // by snapshots, as of the last check
	grants   list.List  // of *Grant, oldest first
	clients  map[string]*client
	turns    list.List // of *client: those with waiters, whose turn is next first
	waited   int64     // acquisitions that had to wait
	cuts     int64     // grants that were cut off
}

// client is one that has grants or waits for some.
type client struct {
	name    string
	used    int64
	waiting list.List // of *waiter, in order of arrival
	turn    *list.Element
}

// waiter is a request that waits. granted is set, and ready closed, with Budget.mu held.
type waiter struct {
	grant   *Grant
	granted bool
	ready   chan struct{}
}

// New returns a budget; c is completed by the defaults.
func New(c Config) *Budget {
	if c.Total <= 0 {
		c.Total = DefaultTotal
	}
	if c.PerClient <= 0 {
		c.PerClient = c.Total / 4
	}
	if c.Patience <= 0 {
		c.Patience = 10 * time.Second
	}
	return &Budget{total: c.Total, perClient: min(c.PerClient, c.Total), patience: c.Patience, clients: map[string]*client{}}
}

// Acquire waits until n bytes can be held for a client, and counts them until Release. The error is that of ctx. source is what the
// response reads from, nil if it holds nothing of it.
func (b *Budget) Acquire(ctx context.Context, name string, source Source, n int64) (*Grant, error) {
	g := &Grant{budget: b, bytes: max(n, 0), source: source}
	b.mu.Lock()
	c := b.clients[name]
	if c == nil {
		c = &client{name: name}
		b.clients[name] = c
	}
	g.client = c
	if c.turn == nil && b.fitsLocked(g) && !b.wantedLocked() {
		b.grantLocked(g)
		b.mu.Unlock()
		return g, nil
	}
	b.waited++
	w := &waiter{grant: g, ready: make(chan struct{})}
	place := c.waiting.PushBack(w)
	if c.turn == nil {
		c.turn = b.turns.PushBack(c)
	}
	b.mu.Unlock()
	// Somebody has to look for clients that stall; whoever waits does.
	look := time.NewTicker(b.patience / 2)
	defer look.Stop()
	for {
		select {
		case <-w.ready:
			return g, nil
		case <-look.C:
			b.cutStalled(time.Now())
		case <-ctx.Done():
			b.mu.Lock()
			defer b.mu.Unlock()
			if w.granted {
				return g, nil // at the last moment; the caller will notice the end of ctx
			}
			c.waiting.Remove(place)
			b.settleLocked(c)
			b.dispatchLocked() // who came behind may be smaller
			return nil, context.Cause(ctx)
		}
	}
}

// fitsLocked reports whether a grant keeps the limits, or is alone with them.
func (b *Budget) fitsLocked(g *Grant) bool {
	return (b.used+b.retained+g.bytes <= b.total || b.used == 0) && (g.client.used+g.bytes <= b.perClient || g.client.used == 0)
}

// wantedLocked reports whether somebody waits for the server's limit, not only for that of its own client: then nobody overtakes.
func (b *Budget) wantedLocked() bool {
	for e := b.turns.Front(); e != nil; e = e.Next() {
		c := e.Value.(*client)
		g := c.waiting.Front().Value.(*waiter).grant
		if c.used == 0 || c.used+g.bytes <= b.perClient {
			return true
		}
	}
	return false
}

func (b *Budget) grantLocked(g *Grant) {
	b.used += g.bytes
	g.client.used += g.bytes
	if g.source != nil {
		g.mark = g.source.Replaced()
	}
	g.place = b.grants.PushBack(g)
}

// dispatchLocked lets in who fits, one of each client in turn. A request that fits its client's limit but not the server's keeps
// those behind it waiting, or it would starve.
func (b *Budget) dispatchLocked() {
	for progress := true; progress; {
		progress = false
		for e := b.turns.Front(); e != nil; {
			next := e.Next()
			c := e.Value.(*client)
			w := c.waiting.Front().Value.(*waiter)
			if c.used > 0 && c.used+w.grant.bytes > b.perClient {
				e = next
				continue
			}
			if !b.fitsLocked(w.grant) {
				return
			}
			c.waiting.Remove(c.waiting.Front())
			b.grantLocked(w.grant)
			w.granted = true
			close(w.ready)
			b.turns.MoveToBack(e)
			b.settleLocked(c)
			progress = true
			e = next
		}
	}
}

// settleLocked takes a client off the turns when it waits for nothing, and forgets it when it has nothing.
func (b *Budget) settleLocked(c *client) {
	if c.waiting.Len() > 0 {
		return
	}
	if c.turn != nil {
		b.turns.Remove(c.turn)
		c.turn = nil
	}
	if c.used == 0 {
		delete(b.clients, c.name)
	}
}

// Stats is a budget at one moment.
type Stats struct {
	UsedBytes, RetainedBytes int64
	Waiting                  int
	Waited, Cut              int64 // since the start
}

// Stats returns what counts now.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Stats{UsedBytes: b.used, RetainedBytes: b.retained, Waited: b.waited, Cut: b.cuts}
	for e := b.turns.Front(); e != nil; e = e.Next() {
		s.Waiting += e.Value.(*client).waiting.Len()
	}
	return s
}
