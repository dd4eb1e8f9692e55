package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"vigil/internal/eventually"
	"vigil/store"
	"vigil/store/storetest"
)

// TestCompact_TwoServers follows two servers on one etcd, tick by tick.
func TestCompact_TwoServers(t *testing.T) {
	target := storetest.NewTarget(t)
	s := target.Store
	a, b := store.NewCompactor(s), store.NewCompactor(storetest.Open(t, target.Config))
	n := 0
	write := func() int64 {
		n++
		rev, err := s.Create(t.Context(), fmt.Sprintf("/registry/pods/default/%d", n), []byte("v"), 0)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	tick := func(c *store.Compactor) int64 {
		rev, err := c.Tick(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	written := func() string {
		kv, err := s.Get(t.Context(), "compact_rev_key")
		if err != nil {
			t.Fatal(err)
		}
		return string(kv.Value)
	}

	first := write()
	if got := tick(a); got != 0 {
		t.Errorf("a's first tick compacted to %d, want nothing", got)
	}
	if got := written(); got != "0" {
		t.Errorf("compact_rev_key is %q after the first tick, want 0", got)
	}
	if got := tick(b); got != 0 {
		t.Errorf("b's first tick compacted to %d, want nothing: a was first", got)
	}
	// Interval 2: a is first again, and compacts to the revision of its last tick: its own Put.
	second := write()
	if got := tick(a); got != first+1 {
		t.Errorf("a's second tick compacted to %d, want %d", got, first+1)
	}
	if got := tick(b); got != 0 {
		t.Errorf("b's second tick compacted to %d, want nothing", got)
	}
	if got, want := written(), fmt.Sprint(first+1); got != want {
		t.Errorf("compact_rev_key is %q, want %s", got, want)
	}
	if _, err := s.List(t.Context(), "/registry/", store.ListOptions{Rev: first}); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("list at %d: %v, want ErrCompacted", first, err)
	}
	if _, err := s.List(t.Context(), "/registry/", store.ListOptions{Rev: second}); err != nil {
		t.Errorf("list at %d: %v", second, err)
	}
	// Interval 3: a is gone, b takes over with the revision of its own last tick.
	write()
	if got := tick(b); got != second+1 {
		t.Errorf("b alone compacted to %d, want %d", got, second+1)
	}
	// Interval 4: a is back, after b.
	write()
	if got := tick(b); got <= second+1 {
		t.Errorf("b's next compaction to %d, want more than %d", got, second+1)
	}
	if got := tick(a); got != 0 {
		t.Errorf("a, late, compacted to %d, want nothing", got)
	}
	// A server that starts now finds a version it does not know and adopts it.
	c := store.NewCompactor(s)
	if got := tick(c); got != 0 {
		t.Errorf("a new server's first tick compacted to %d, want nothing", got)
	}
	if got := tick(c); got == 0 {
		t.Error("a new server that is first in the interval did not compact")
	}
}

// TestCompact_Run lets three servers compact by the clock, while a feed goes on.
func TestCompact_Run(t *testing.T) {
	target := storetest.NewRemoteTarget(t)
	s := target.Store
	create := func(n int) int64 {
		rev, err := s.Create(t.Context(), fmt.Sprintf("/registry/pods/default/%d", n), []byte("v"), 0)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	feed := storetest.Record(t.Context(), t, s, 1)
	first := create(0)
	feed.WaitFor(t, first) // from here on it keeps up, and compaction is not its business

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	const servers = 3
	for range servers {
		cfg := target.Config
		cfg.CompactInterval = 30 * time.Millisecond
		s := storetest.Open(t, cfg)
		go func() { ended <- s.Run(ctx) }()
	}
	last, n := first, 0
	eventually.True(t, fmt.Sprintf("revision %d is compacted", first), func() bool {
		n++
		last = create(n)
		_, err := s.List(ctx, "/registry/", store.ListOptions{Rev: first, Limit: 1})
		if err != nil && !errors.Is(err, store.ErrCompacted) {
			t.Fatalf("list at revision %d, the newest being %d: %v", first, last, err)
		}
		return err != nil
	})
	for _, e := range feed.WaitFor(t, last) {
		if e.Key == "compact_rev_key" {
			t.Errorf("the feed delivers %s", e.Key)
		}
	}
	cancel()
	for range servers {
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

func TestCompact_Off(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := storetest.New(t)
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("run: %v", err)
	}
}
