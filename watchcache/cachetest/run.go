package cachetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ErrExpired is what a target returns when history is gone (410): the watcher begins anew, the list is forgotten.
var ErrExpired = errors.New("expired")

// Target serves lists and watches of one resource. Its methods are called from many goroutines.
type Target interface {
	// Write creates (rev 0), updates (rev > 0) or deletes (rev < 0, object gives the key) and returns the new revision.
	// rev is, but for its sign, the object's last one.
	Write(ctx context.Context, o Object, rev int64) (int64, error)

	// Watch starts a watch after a revision, or with initial events and their bookmark when after is negative. An error
	// other than ErrExpired is a mishap: the watcher tries again.
	Watch(ctx context.Context, sel Selector, after int64) (Stream, error)

	// List reads a list in pages of limit (0: one page), at the newest revision consistently, or at exactly rev unless
	// that is 0. Errors are as for Watch.
	List(ctx context.Context, sel Selector, rev int64, limit int) (revision int64, items []Item, err error)
}

// Stream is one watch.
type Stream interface {
	// Next blocks until there is an event. It fails with ErrExpired, with ctx's error, or because the connection
	// has broken.
	Next(ctx context.Context) (Event, error)
	// Pending reports whether Next has an event at once, as far as that is known.
	Pending() bool
	Close()
}

// Options say how much happens.
type Options struct {
	Seed     uint64
	Writes   int // of all writers together, at least: they go on until each mishap has happened
	Writers  int
	Watchers int
	Readers  int // of lists
	// Mishaps happen one after the other, each at a random moment, again and again.
	Mishaps []func(context.Context) error
	// Timeout bounds the wait for the last events. Zero is 30 s.
	Timeout time.Duration
}

// Stats say what has been checked, so that a test can insist that it was something.
type Stats struct {
	Writes, Segments, Events, Reconnects, Expired, Lists, Pages, Mishaps int64
}

func (s *Stats) String() string {
	return fmt.Sprintf("%d writes, %d segments, %d events, %d reconnects, %d expired, %d lists, %d mishaps",
		s.Writes, s.Segments, s.Events, s.Reconnects, s.Expired, s.Lists, s.Mishaps)
}

// run is the state of one Run.
type run struct {
	t       testing.TB
	o       Options
	target  Target
	history *History
	stats   Stats

	mishapsSeen atomic.Int64

	mu       sync.Mutex
	segments []*Segment
	lists    []*Listing
}

// Run writes, watches and lists at random, and reports every broken promise to t.
func Run(t testing.TB, target Target, o Options) *Stats {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	r := &run{t: t, o: o, target: target, history: NewHistory()}
	writing, stopMishaps := context.WithCancel(t.Context())
	defer stopMishaps()
	// drained ends for watchers when all writes are there; each then reads what is left.
	drained, drain := context.WithCancel(t.Context())
	defer drain()
	var writers, others, mishaps sync.WaitGroup
	for i := range o.Writers {
		writers.Go(func() { r.write(t.Context(), i) })
	}
	for i := range o.Watchers {
		others.Go(func() { r.watch(drained, i) })
	}
	for i := range o.Readers {
		others.Go(func() { r.read(drained, i) })
	}
	mishaps.Go(func() { r.mishaps(writing) })
	writers.Wait()
	stopMishaps()
	mishaps.Wait()
	r.history.Sort()
	drain()
	others.Wait()
	for _, s := range r.segments {
		r.stats.Events += int64(len(s.Events))
		if err := s.Check(r.history); err != nil {
			t.Errorf("seed %d: %v", o.Seed, err)
		}
	}
	for _, l := range r.lists {
		if err := l.Check(r.history); err != nil {
			t.Errorf("seed %d: %v", o.Seed, err)
		}
	}
	r.stats.Mishaps = r.mishapsSeen.Load()
	r.stats.Writes, r.stats.Segments, r.stats.Lists = int64(r.history.Len()), int64(len(r.segments)), int64(len(r.lists))
	return &r.stats
}

func (r *run) random(kind, i int) *rand.Rand {
	return rand.New(rand.NewPCG(r.o.Seed, uint64(kind)<<32|uint64(i)))
}

var (
	namespaces = []string{"a", "ab", "b", "c"}
	nodes      = []string{"", "", "n1", "n2", "n3", "n4"}
	apps       = []string{"", "web", "db", "cache"}
)

// write makes this writer's share of the writes. Writers do not touch each other's objects.
func (r *run) write(ctx context.Context, id int) {
	rnd := r.random(1, id)
	type own struct {
		Object
		rev int64 // 0: does not exist
	}
	var objects []*own
	for i := range 12 {
		objects = append(objects, &own{Object: Object{Namespace: namespaces[i%len(namespaces)], Name: fmt.Sprintf("w%d-%d", id, i/2)}})
	}
	for n := 0; n < r.o.Writes/r.o.Writers || r.mishapsSeen.Load() < int64(len(r.o.Mishaps)) && ctx.Err() == nil; n++ {
		o := objects[rnd.IntN(len(objects))]
		next, rev := o.Object, o.rev
		next.Serial = (n+1)*1000 + id
		switch {
		case o.rev == 0:
			next.Node, next.App = pick(rnd, nodes), pick(rnd, apps)
		case rnd.IntN(5) == 0:
			rev = -rev
		default: // most updates change nothing that is selected by
			if rnd.IntN(3) == 0 {
				next.Node = pick(rnd, nodes)
			}
			if rnd.IntN(3) == 0 {
				next.App = pick(rnd, apps)
			}
		}
		got, err := r.target.Write(ctx, next, rev)
		if err != nil {
			r.t.Errorf("seed %d: write %v at %d: %v", r.o.Seed, next, rev, err)
			return
		}
		w := Write{Rev: got, Key: next.Key(), Object: &next}
		if o.rev, o.Object = got, next; rev < 0 {
			w.Object, o.rev = nil, 0
		}
		r.history.Add(w)
	}
}

func pick[T any](rnd *rand.Rand, from []T) T { return from[rnd.IntN(len(from))] }

func selector(rnd *rand.Rand) Selector {
	var s Selector
	if rnd.IntN(3) == 0 {
		s.Namespace = pick(rnd, namespaces)
	}
	if rnd.IntN(3) == 0 {
		s.Labels = pick(rnd, []string{"app=web", "app!=web", "app", "!app", "app in (web,db)", "app notin (web),app"})
	}
	var terms []string
	if rnd.IntN(3) == 0 {
		terms = append(terms, pick(rnd, []string{"spec.nodeName=n1", "spec.nodeName=n2", "spec.nodeName=", "spec.nodeName!=", "spec.nodeName!=n3"}))
	}
	if rnd.IntN(5) == 0 {
		terms = append(terms, fmt.Sprintf("metadata.name=w%d-%d", rnd.IntN(2), rnd.IntN(6)))
	}
	if rnd.IntN(8) == 0 {
		terms = append(terms, "metadata.namespace="+pick(rnd, namespaces))
	}
	s.Fields = strings.Join(terms, ",")
	return s
}

// watch is one watcher: it starts somewhere, reads at its own pace, breaks off, goes on.
func (r *run) watch(drained context.Context, id int) {
	rnd := r.random(2, id)
	sel := selector(rnd)
	slow := rnd.IntN(4) == 0
	seg := r.segment(id, sel, r.startAfter(rnd))
	last := seg.After
	for drained.Err() == nil {
		stream, err := r.target.Watch(drained, sel, last)
		if err == nil {
			last, err = r.readSome(drained, rnd, stream, seg, last, slow)
			stream.Close()
		}
		switch {
		case errors.Is(err, ErrExpired):
			atomic.AddInt64(&r.stats.Expired, 1)
			seg = r.segment(id, sel, -1)
			last = -1
		case last < 0 && seg.Initial && len(seg.Events) > 0:
			seg, last = r.segment(id, sel, -1), -1 // broke off among the initial events
		case drained.Err() == nil:
			atomic.AddInt64(&r.stats.Reconnects, 1)
		}
	}
	r.finish(id, sel, seg, last)
}

// startAfter chooses where a watcher begins: with initial events, or at a revision that has been, or will be.
func (r *run) startAfter(rnd *rand.Rand) int64 {
	switch newest := r.history.Newest(); rnd.IntN(3) {
	case 0:
		return -1
	case 1:
		return newest + rnd.Int64N(50)
	default:
		return max(1, newest-rnd.Int64N(200))
	}
}

func (r *run) segment(id int, sel Selector, after int64) *Segment {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Segment{Watcher: fmt.Sprintf("watcher %d", id), Selector: sel, After: after, Initial: after < 0}
	r.segments = append(r.segments, s)
	return s
}

// readSome reads events until the watcher breaks off by itself (nil) or has to, and returns where to go on: -1 among
// initial events.
func (r *run) readSome(ctx context.Context, rnd *rand.Rand, stream Stream, seg *Segment, last int64, slow bool) (int64, error) {
	for range 1 + rnd.IntN(200) {
		if slow && rnd.IntN(10) == 0 {
			r.history.WaitLen(ctx, r.history.Len()+rnd.IntN(100))
		}
		ev, err := stream.Next(ctx)
		if err != nil {
			return last, err
		}
		seg.Events = append(seg.Events, ev)
		if last >= 0 || ev.InitialEnd {
			last = ev.Rev
		}
	}
	return last, nil
}

// finish reads what is left when all writes are done.
func (r *run) finish(id int, sel Selector, seg *Segment, last int64) {
	ctx, cancel := context.WithTimeout(r.t.Context(), r.o.Timeout)
	defer cancel()
	for ctx.Err() == nil {
		stream, err := r.target.Watch(ctx, sel, last)
		for missing := seg.Missing(r.history); err == nil && (missing > 0 || stream.Pending()); {
			var ev Event
			if ev, err = stream.Next(ctx); err != nil {
				break
			}
			seg.Events = append(seg.Events, ev)
			if last >= 0 || ev.InitialEnd {
				last = ev.Rev
			}
			if ev.InitialEnd {
				missing = seg.Missing(r.history)
			} else if last >= 0 && ev.Type != "BOOKMARK" {
				missing--
			}
		}
		if stream != nil {
			stream.Close()
		}
		switch {
		case err == nil:
			seg.Done = true
			return
		case errors.Is(err, ErrExpired) || last < 0 && len(seg.Events) > 0:
			seg, last = r.segment(id, sel, -1), -1
		}
	}
	seg.Done = true // so that the check says what is missing
}

// read makes lists.
func (r *run) read(ctx context.Context, id int) {
	rnd := r.random(3, id)
	for ctx.Err() == nil {
		l := &Listing{Selector: selector(rnd)}
		limit := pick(rnd, []int{0, 1, 3, 10})
		exact := int64(0)
		if newest := r.history.Newest(); rnd.IntN(2) == 0 && newest > 1 {
			exact = max(1, newest-rnd.Int64N(100))
		}
		if l.AtLeast = exact; exact == 0 {
			l.AtLeast = r.history.Newest()
		}
		var err error
		l.Rev, l.Items, err = r.target.List(ctx, l.Selector, exact, limit)
		if err != nil {
			continue // expired, or a mishap
		}
		r.mu.Lock()
		r.lists = append(r.lists, l)
		r.mu.Unlock()
		r.history.WaitLen(ctx, r.history.Len()+rnd.IntN(20))
	}
}

// mishaps lets things happen while there are writes.
func (r *run) mishaps(ctx context.Context) {
	rnd := r.random(4, 0)
	for i := 0; len(r.o.Mishaps) > 0; i++ {
		r.history.WaitLen(ctx, r.history.Len()+20+rnd.IntN(100))
		if ctx.Err() != nil {
			return
		}
		if err := r.o.Mishaps[i%len(r.o.Mishaps)](r.t.Context()); err != nil {
			r.t.Errorf("seed %d: mishap %d: %v", r.o.Seed, i%len(r.o.Mishaps), err)
			r.mishapsSeen.Add(int64(len(r.o.Mishaps))) // let the writers come to an end
			return
		}
		r.mishapsSeen.Add(1)
	}
}
