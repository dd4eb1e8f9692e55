package listmemory

import (
	"context"
	"slices"
	"time"
)

// checkEvery is the time between two looks at what snapshots retain.
const checkEvery = time.Second

// Run looks after what snapshots retain until ctx ends, and returns nil.
func (b *Budget) Run(ctx context.Context) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.Check()
		case <-ctx.Done():
			return nil
		}
	}
}

// Check measures what snapshots retain and cuts off who holds the oldest if that is too much. Run calls it.
func (b *Budget) Check() {
	b.mu.Lock()
	var cut []func()
	if oldest := b.measureLocked(); oldest != nil && b.retained > b.total/2 {
		cut = b.cutLocked(cut, oldest)
	}
	b.dispatchLocked() // less may be retained now
	b.mu.Unlock()
	for _, f := range cut {
		f()
	}
}

// measureLocked sets retained, and returns the grant that retains most, nil if none does or it has been cut off already.
func (b *Budget) measureLocked() (most *Grant) {
	b.retained = 0
	var top int64
	var seen []Source // few
	for e := b.grants.Front(); e != nil; e = e.Next() {
		g := e.Value.(*Grant)
		if g.source == nil || slices.Contains(seen, g.source) {
			continue
		}
		seen = append(seen, g.source) // the oldest of a source retains all that the others do
		held := g.source.Replaced() - g.mark
		b.retained += held
		if held > top {
			most, top = g, held
		}
	}
	if most != nil && most.cut {
		return nil
	}
	return most
}

// cutStalled cuts off the clients that have taken nothing for too long.
func (b *Budget) cutStalled(now time.Time) {
	since := now.Add(-b.patience)
	var cut []func()
	b.mu.Lock()
	for e := b.grants.Front(); e != nil; e = e.Next() {
		if g := e.Value.(*Grant); g.stalled(since) {
			cut = b.cutLocked(cut, g)
		}
	}
	b.mu.Unlock()
	for _, f := range cut {
		f()
	}
}

// cutLocked marks g as cut off and appends how to do it.
func (b *Budget) cutLocked(dst []func(), g *Grant) []func() {
	f := g.cutting.Load()
	if f == nil || g.cut {
		return dst
	}
	g.cut = true
	b.cuts++
	return append(dst, *f)
}
