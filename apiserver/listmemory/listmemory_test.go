package listmemory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a Source.
type counted struct{ atomic.Int64 }

func (c *counted) Replaced() int64 { return c.Load() }

func acquire(t *testing.T, b *Budget, client string, n int64) *Grant {
	t.Helper()
	g, err := b.Acquire(t.Context(), client, nil, n)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// line notes who got in, in order.
type line struct {
	b  *Budget
	mu sync.Mutex

	// Guarded by mu.
	got []string
	all map[string]*Grant
}

// in returns who has got in by now.
func (l *line) in() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

// release gives back the grant of name.
func (l *line) release(name string) {
	l.mu.Lock()
	g := l.all[name]
	l.mu.Unlock()
	g.Release()
}

// add lets client wait for n bytes; it must not get in at once.
func (l *line) add(t *testing.T, client, name string, n int64) {
	go func() {
		if g, err := l.b.Acquire(t.Context(), client, nil, n); err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.got = append(l.got, name)
			l.all[name] = g
		}
	}()
	synctest.Wait()
}

func TestBudget_ClientsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Total: 100, PerClient: 100})
		first := acquire(t, b, "a", 100)
		l := &line{b: b, all: map[string]*Grant{}}
		for _, name := range []string{"a1", "a2", "a3", "b1", "b2", "c1"} {
			l.add(t, name[:1], name, 100)
		}
		first.Release()
		for i, want := range []string{"a1", "b1", "c1", "a2", "b2", "a3"} {
			in := l.in()
			if len(in) != i+1 || in[i] != want {
				t.Fatalf("got in: %v, want %s next", in, want)
			}
			l.release(want)
		}
		if s := b.Stats(); s != (Stats{Waited: 6}) || len(b.clients) > 0 {
			t.Errorf("left: %+v, %d clients", s, len(b.clients))
		}
	})
}

func TestBudget_ClientAtItsLimitHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Total: 100, PerClient: 40})
		first := acquire(t, b, "a", 30)
		l := &line{b: b, all: map[string]*Grant{}}
		l.add(t, "a", "a1", 20)
		acquire(t, b, "b", 40)
		if len(l.in()) > 0 {
			t.Fatal("a is over its limit")
		}
		first.Shrink(20)
		if len(l.in()) != 1 {
			t.Error("there is room now")
		}
	})
}

// A large request waits for its turn, but smaller ones that came later do not overtake it for ever.
func TestBudget_LargeRequestDoesNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Total: 100, PerClient: 100})
		first, second := acquire(t, b, "a", 50), acquire(t, b, "b", 30)
		l := &line{b: b, all: map[string]*Grant{}}
		l.add(t, "c", "large", 1000)
		l.add(t, "d", "small", 10)
		first.Release()
		if in := l.in(); len(in) > 0 {
			t.Fatalf("%v overtook", in)
		}
		second.Release()
		if in := l.in(); !slices.Equal(in, []string{"large"}) {
			t.Fatalf("got in: %v", in)
		}
		l.release("large")
		if in := l.in(); !slices.Equal(in, []string{"large", "small"}) {
			t.Errorf("got in: %v", in)
		}
	})
}

func TestBudget_Cancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Total: 100, PerClient: 100})
		first := acquire(t, b, "a", 60)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := &line{b: b, all: map[string]*Grant{}}
		go func() {
			if _, err := b.Acquire(ctx, "b", nil, 90); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}()
		synctest.Wait()
		l.add(t, "c", "small", 40)
		if len(l.in()) > 0 {
			t.Error("overtook")
		}
		<-ctx.Done()
		if len(l.in()) != 1 {
			t.Error("who came behind still waits")
		}
		l.release("small")
		first.Release()
		first.Release()
		if s := b.Stats(); s.UsedBytes != 0 || s.Waiting != 0 || len(b.clients) > 0 {
			t.Errorf("left: %+v", s)
		}
	})
}

// Who does not read is cut off when somebody waits, not before, and not who reads slowly.
func TestBudget_CutsStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Total: 100, PerClient: 100})
		stalled, slow := acquire(t, b, "a", 50), acquire(t, b, "b", 50)
		stalled.OnCut(func() { go stalled.Release() })
		slow.OnCut(func() { t.Error("cut off although it reads") })
		stalled.Writing()
		go func() {
			for t.Context().Err() == nil {
				slow.Writing()
				select {
				case <-time.After(5 * time.Second):
				case <-t.Context().Done():
				}
				slow.Written()
			}
		}()
		time.Sleep(time.Minute)
		if s := b.Stats(); s.Cut != 0 {
			t.Error("cut off although nobody waits")
		}
		acquire(t, b, "c", 40)
		if s := b.Stats(); s.Cut != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// The objects that snapshots keep count once for each source, against the server's limit, and the oldest list goes when they are too many.
func TestBudget_Retained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Total: 100, PerClient: 100})
		pods, nodes := &counted{}, &counted{}
		var cut []string
		grant := func(name string, s Source) *Grant {
			g, err := b.Acquire(t.Context(), name, s, 1)
			if err != nil {
				t.Fatal(err)
			}
			g.OnCut(func() { cut = append(cut, name) })
			return g
		}
		oldest := grant("oldest", pods)
		pods.Add(20)
		grant("younger", pods)
		grant("other", nodes)
		pods.Add(20)
		nodes.Add(5)
		b.Check()
		if s := b.Stats(); s.RetainedBytes != 45 || s.Cut != 0 {
			t.Fatalf("%+v", s)
		}
		pods.Add(10)
		b.Check()
		b.Check()
		if !slices.Equal(cut, []string{"oldest"}) {
			t.Fatalf("cut off: %v", cut)
		}
		oldest.Release()
		if s := b.Stats(); s.RetainedBytes != 35 {
			t.Fatalf("%+v", s)
		}
	})
}

// TestBudget_Limits has many clients at random and looks at the sums they see.
func TestBudget_Limits(t *testing.T) {
	const total, perClient = 1000, 300
	b := New(Config{Total: total, PerClient: perClient})
	var sum atomic.Int64
	var each [7]atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for range 200 {
				who, n := rnd.IntN(len(each)), int64(rnd.IntN(perClient))
				g, err := b.Acquire(t.Context(), fmt.Sprint(who), nil, n)
				if err != nil {
					t.Error(err)
					return
				}
				if now := sum.Add(n); now > total {
					t.Errorf("%d in all", now)
				}
				if now := each[who].Add(n); now > perClient {
					t.Errorf("%d for one client", now)
				}
				sum.Add(-n)
				each[who].Add(-n)
				g.Release()
			}
		})
	}
	wg.Wait()
	if s := b.Stats(); s.UsedBytes != 0 || s.Waiting != 0 || len(b.clients) > 0 || b.grants.Len() > 0 {
		t.Errorf("left: %+v", s)
	}
}

func BenchmarkAcquire(b *testing.B) {
	budget := New(Config{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g, err := budget.Acquire(b.Context(), "a", nil, 1)
			if err != nil {
				b.Fatal(err)
			}
			g.Release()
		}
	})
}
