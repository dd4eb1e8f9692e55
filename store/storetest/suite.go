package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vigil/store"
)

// Suite runs what every way to reach etcd must pass. Each test gets a fresh etcd from open.
func Suite(t *testing.T, open func(testing.TB) Target) {
	tests := []struct {
		name string
		run  func(*testing.T, Target)
	}{
		{"Create", testCreate},
		{"Update", testUpdate},
		{"Delete", testDelete},
		{"Values", testValues},
		{"TooLarge", testTooLarge},
		{"ContextEnds", testContextEnds},
		{"ConcurrentUpdates", testConcurrentUpdates},
		{"List", testList},
		{"ListPages", testListPages},
		{"ListManyPages", testListManyPages},
		{"ListAtRevision", testListAtRevision},
		{"LoadAll", testLoadAll},
		{"Revision", testRevision},
		{"Health", testHealth},
		{"TTL", testTTL},
		{"LeasesAreShared", testLeasesAreShared},
		{"LeaseGone", testLeaseGone},
		{"Feed", testFeed},
		{"FeedWholeTransactions", testFeedWholeTransactions},
		{"FeedCatchesUp", testFeedCatchesUp},
		{"FeedCompacted", testFeedCompacted},
		{"FeedEnds", testFeedEnds},
		{"FeedProgress", testFeedProgress},
		{"FeedFarBehind", testFeedFarBehind},
		{"Feeds", testFeeds},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open(t))
		})
	}
}

const podA = "/registry/pods/default/a"

func testCreate(t *testing.T, target Target) {
	s := target.Store
	rev := create(t, s, podA, "v1")
	wantKV(t, s, podA, "v1", rev)

	if _, err := s.Create(t.Context(), podA, []byte("v2"), 0); !errors.Is(err, store.ErrExists) {
		t.Errorf("second create: %v, want ErrExists", err)
	}
	wantKV(t, s, podA, "v1", rev)

	if again := create(t, s, podA+"a", "v"); again != rev+1 {
		t.Errorf("next create at revision %d, want %d", again, rev+1)
	}
	if _, err := s.Get(t.Context(), "/registry/pods/default/none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get of nothing: %v, want ErrNotFound", err)
	}
}

func testUpdate(t *testing.T, target Target) {
	s := target.Store
	first := create(t, s, podA, "v1")
	second, err := s.Update(t.Context(), podA, []byte("v2"), first, 0)
	if err != nil || second != first+1 {
		t.Fatalf("update: revision %d, %v; want %d", second, err, first+1)
	}
	wantKV(t, s, podA, "v2", second)

	_, err = s.Update(t.Context(), podA, []byte("v3"), first, 0)
	wantConflict(t, err, store.KV{Key: podA, Value: []byte("v2"), ModRev: second}, true)
	wantKV(t, s, podA, "v2", second)

	_, err = s.Update(t.Context(), "/registry/pods/default/none", []byte("v"), first, 0)
	wantConflict(t, err, store.KV{Key: "/registry/pods/default/none"}, false)

	_, err = s.Update(t.Context(), podA, []byte("v"), 0, 0)
	wantConflict(t, err, store.KV{Key: podA, Value: []byte("v2"), ModRev: second}, true)
	if rev, err := s.Update(t.Context(), "/registry/pods/default/new", []byte("v"), 0, 0); err != nil || rev != second+1 {
		t.Errorf("update of nothing from revision 0: %d, %v; want %d", rev, err, second+1)
	}
}

func testDelete(t *testing.T, target Target) {
	s := target.Store
	first := create(t, s, podA, "v1")
	second, err := s.Update(t.Context(), podA, []byte("v2"), first, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Delete(t.Context(), podA, first)
	wantConflict(t, err, store.KV{Key: podA, Value: []byte("v2"), ModRev: second}, true)
	wantKV(t, s, podA, "v2", second)

	third, err := s.Delete(t.Context(), podA, second)
	if err != nil || third != second+1 {
		t.Fatalf("delete: revision %d, %v; want %d", third, err, second+1)
	}
	if _, err := s.Get(t.Context(), podA); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get after delete: %v, want ErrNotFound", err)
	}
	_, err = s.Delete(t.Context(), podA, second)
	wantConflict(t, err, store.KV{Key: podA}, false)
	if _, err := s.Delete(t.Context(), podA, 0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("delete of nothing: %v, want ErrNotFound", err)
	}
	if rev := create(t, s, podA, "v1"); rev != third+1 {
		t.Errorf("create after delete at %d, want %d: a failed write took a revision", rev, third+1)
	}
}

func testValues(t *testing.T, target Target) {
	s := target.Store
	for i, size := range []int{0, 1, 3300, 1 << 20} {
		key := fmt.Sprintf("/registry/configmaps/default/%d", i)
		value := Value(i, size)
		sent := slices.Clone(value)
		rev, err := s.Create(t.Context(), key, sent, 0)
		if err != nil {
			t.Fatalf("create %d bytes: %v", size, err)
		}
		for j := range sent { // the caller may use its buffer again
			sent[j] = 0
		}
		wantKV(t, s, key, string(value), rev)
	}
}

func testTooLarge(t *testing.T, target Target) {
	s := target.Store
	rev := create(t, s, podA, "v")
	for _, size := range []int{1<<20 + 1<<19, 2 << 20, 4 << 20} {
		if _, err := s.Create(t.Context(), podA+"a", Value(0, size), 0); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("create %d bytes: %v, want ErrTooLarge", size, err)
		}
		if _, err := s.Update(t.Context(), podA, Value(0, size), rev, 0); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("update %d bytes: %v, want ErrTooLarge", size, err)
		}
	}
	wantKV(t, s, podA, "v", rev)
}

func testContextEnds(t *testing.T, target Target) {
	s := target.Store
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"create": func() error { _, err := s.Create(ctx, podA, []byte("v"), 0); return err },
		"update": func() error { _, err := s.Update(ctx, podA, []byte("v"), 1, 0); return err },
		"delete": func() error { _, err := s.Delete(ctx, podA, 1); return err },
		"get":    func() error { _, err := s.Get(ctx, podA); return err },
		"list":   func() error { _, err := s.List(ctx, "/registry/pods/", store.ListOptions{}); return err },
		"load": func() error {
			_, err := s.LoadAll(ctx, "/registry/", 0, func([]store.KV) error { return nil })
			return err
		},
		"revision": func() error { _, err := s.Revision(ctx); return err },
		"feed":     func() error { return s.Feed(ctx, 1, func(store.Batch) error { return nil }) },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", name, err)
		}
	}
}

// testConcurrentUpdates has goroutines add to one counter by compare-and-swap: none may be lost.
func testConcurrentUpdates(t *testing.T, target Target) {
	s := target.Store
	create(t, s, podA, "0")
	const workers, each = 8, 25
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			kv, err := s.Get(t.Context(), podA)
			for done := 0; done < each && err == nil; {
				var n int
				fmt.Sscan(string(kv.Value), &n)
				var conflict *store.ConflictError
				value := []byte(fmt.Sprint(n + 1))
				var rev int64
				rev, err = s.Update(t.Context(), podA, value, kv.ModRev, 0)
				switch {
				case err == nil:
					done++
					kv = store.KV{Key: podA, Value: value, ModRev: rev}
				case errors.As(err, &conflict) && conflict.Found:
					kv, err = conflict.Current, nil
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	kv, err := s.Get(t.Context(), podA)
	if want := fmt.Sprint(workers * each); err != nil || string(kv.Value) != want {
		t.Errorf("counter is %q, %v; want %s", kv.Value, err, want)
	}
}

func testHealth(t *testing.T, target Target) {
	if err := target.Store.Health(t.Context()); err != nil {
		t.Errorf("health: %v", err)
	}
}

func create(t testing.TB, s *store.Store, key, value string) int64 {
	t.Helper()
	rev, err := s.Create(t.Context(), key, []byte(value), 0)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func wantKV(t testing.TB, s *store.Store, key, value string, rev int64) {
	t.Helper()
	kv, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if kv.Key != key || string(kv.Value) != value || kv.ModRev != rev {
		t.Errorf("%s has %.50q at revision %d, want %.50q at %d", kv.Key, kv.Value, kv.ModRev, value, rev)
	}
}

func wantConflict(t testing.TB, err error, current store.KV, found bool) {
	t.Helper()
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || !errors.Is(err, store.ErrConflict) {
		t.Errorf("got %v, want a *ConflictError", err)
		return
	}
	want := &store.ConflictError{Current: current, Found: found}
	if diff := cmp.Diff(want, conflict); diff != "" {
		t.Errorf("conflict (-want +got):\n%s", diff)
	}
}
