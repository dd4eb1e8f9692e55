package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"vigil/store"
)

func testList(t *testing.T, target Target) {
	s := target.Store
	for _, key := range []string{"pods/b/2", "pods/a/1", "pods/b/1", "podtemplates/a/1", "pod/a", "pods"} {
		create(t, s, "/registry/"+key, key)
	}
	rev := create(t, s, "/registry/zz", "last")
	tests := []struct {
		prefix, from string
		want         []string
	}{
		{"/registry/pods/", "", []string{"pods/a/1", "pods/b/1", "pods/b/2"}},
		{"/registry/pods/b/", "", []string{"pods/b/1", "pods/b/2"}},
		{"/registry/pods/", "/registry/pods/b/1", []string{"pods/b/1", "pods/b/2"}},
		{"/registry/pods/", "/registry/pods/b/1\x00", []string{"pods/b/2"}},
		{"/registry/pods/", "/registry/pods/z", nil},
		{"/registry/pods/", "/registry/a", []string{"pods/a/1", "pods/b/1", "pods/b/2"}},
		{"/registry/none/", "", nil},
	}
	for _, test := range tests {
		res, err := s.List(t.Context(), test.prefix, store.ListOptions{From: test.from})
		if err != nil {
			t.Fatal(err)
		}
		if got := values(res.KVs); !slices.Equal(got, test.want) || res.More || res.Rev != rev {
			t.Errorf("list %s from %q: %q at %d (more %v), want %q at %d", test.prefix, test.from, got, res.Rev, res.More, test.want, rev)
		}
	}
}

func testListPages(t *testing.T, target Target) {
	s := target.Store
	for i := range 7 {
		create(t, s, fmt.Sprintf("/registry/pods/a/%d", i), fmt.Sprint(i))
	}
	create(t, s, "/registry/pods0", "behind the prefix")
	var pages [][]string
	o := store.ListOptions{Limit: 3}
	for {
		res, err := s.List(t.Context(), "/registry/pods/", o)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, values(res.KVs))
		if o.Rev != 0 && res.Rev != o.Rev {
			t.Errorf("page at revision %d, want %d", res.Rev, o.Rev)
		}
		o.Rev = res.Rev
		if !res.More {
			break
		}
		o.From = res.KVs[len(res.KVs)-1].Key + "\x00"
		create(t, s, o.From+"new", "new") // must not come into later pages
	}
	if got, want := fmt.Sprint(pages), "[[0 1 2] [3 4 5] [6]]"; got != want {
		t.Errorf("pages %s, want %s", got, want)
	}
	res, err := s.List(t.Context(), "/registry/pods/", store.ListOptions{Rev: o.Rev, Limit: 7})
	if err != nil || len(res.KVs) != 7 || res.More {
		t.Errorf("a page of exactly all: %d, more %v, %v", len(res.KVs), res.More, err)
	}
}

// testListManyPages crosses the page size the store itself uses.
func testListManyPages(t *testing.T, target Target) {
	const n = 12345
	Fill(t, target.Etcd, "/registry/pods/a/", n, 8)
	for _, limit := range []int64{0, n, n - 1, 10000, 10001} {
		want := min(n, int(limit))
		if limit == 0 {
			want = n
		}
		res, err := target.Store.List(t.Context(), "/registry/pods/", store.ListOptions{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.KVs) != want || res.More != (want < n) {
			t.Errorf("limit %d: %d values, more %v; want %d", limit, len(res.KVs), res.More, want)
		}
		for i, kv := range res.KVs {
			if key := fmt.Sprintf("/registry/pods/a/%06d", i); kv.Key != key || !slices.Equal(kv.Value, Value(i, 8)) {
				t.Fatalf("limit %d: value %d is %s, want %s", limit, i, kv.Key, key)
			}
		}
	}
}

func testListAtRevision(t *testing.T, target Target) {
	s := target.Store
	first := create(t, s, podA, "v1")
	second, err := s.Update(t.Context(), podA, []byte("v2"), first, 0)
	if err != nil {
		t.Fatal(err)
	}
	third, err := s.Delete(t.Context(), podA, second)
	if err != nil {
		t.Fatal(err)
	}
	for rev, want := range map[int64]string{first: "[v1]", second: "[v2]", third: "[]", 0: "[]"} {
		res, err := s.List(t.Context(), "/registry/pods/", store.ListOptions{Rev: rev})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(values(res.KVs)); got != want {
			t.Errorf("list at %d: %s, want %s", rev, got, want)
		}
		if rev != 0 && res.Rev != rev {
			t.Errorf("list at %d says revision %d", rev, res.Rev)
		}
	}
	if _, err := s.List(t.Context(), "/registry/pods/", store.ListOptions{Rev: third + 1}); !errors.Is(err, store.ErrFutureRevision) {
		t.Errorf("list in the future: %v, want ErrFutureRevision", err)
	}
	compact(t, target, second)
	if _, err := s.List(t.Context(), "/registry/pods/", store.ListOptions{Rev: first}); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("list before compaction: %v, want ErrCompacted", err)
	}
	if res, err := s.List(t.Context(), "/registry/pods/", store.ListOptions{Rev: second}); err != nil || fmt.Sprint(values(res.KVs)) != "[v2]" {
		t.Errorf("list at the compacted revision: %q, %v", values(res.KVs), err)
	}
}

func testLoadAll(t *testing.T, target Target) {
	s := target.Store
	Fill(t, target.Etcd, "/registry/pods/a/", 3210, 100)
	rev := Fill(t, target.Etcd, "/registry/secrets/a/", 1000, 100)
	create(t, s, "/registry/pods/late", "v")
	create(t, s, "/registrz", "v")

	var mu sync.Mutex
	var runs [][]store.KV
	load := func(kvs []store.KV) error {
		mu.Lock()
		defer mu.Unlock()
		for i := range kvs {
			kvs[i].Value = bytes.Clone(kvs[i].Value)
		}
		runs = append(runs, kvs)
		return nil
	}
	got, err := s.LoadAll(t.Context(), "/registry/", rev, load)
	if err != nil || got != rev {
		t.Fatalf("load at %d: %d, %v", rev, got, err)
	}
	slices.SortFunc(runs, func(a, b []store.KV) int { return strings.Compare(a[0].Key, b[0].Key) })
	want, err := s.List(t.Context(), "/registry/", store.ListOptions{Rev: rev})
	if err != nil {
		t.Fatal(err)
	}
	if all := slices.Concat(runs...); !slices.EqualFunc(all, want.KVs, equalKV) {
		t.Errorf("load of %d values is not the list of %d", len(all), len(want.KVs))
	}

	runs = nil
	if got, err = s.LoadAll(t.Context(), "/registry/none/", 0, load); err != nil || len(runs) != 0 || got < rev {
		t.Errorf("load of nothing: revision %d, %d runs, %v", got, len(runs), err)
	}
	refused := errors.New("refused")
	if _, err = s.LoadAll(t.Context(), "/registry/", 0, func([]store.KV) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("load with a failing fn: %v, want %v", err, refused)
	}
	compact(t, target, rev+1)
	if _, err = s.LoadAll(t.Context(), "/registry/", rev, load); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("load before compaction: %v, want ErrCompacted", err)
	}
}

// testRevision has goroutines write and then ask: nobody may be told a revision before its own write.
func testRevision(t *testing.T, target Target) {
	s := target.Store
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := range 30 {
				wrote, err := s.Create(t.Context(), fmt.Sprintf("/registry/pods/a/%d-%d", w, i), nil, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if rev, err := s.Revision(t.Context()); err != nil || rev < wrote {
					t.Errorf("revision %d, %v after a write at %d", rev, err, wrote)
					return
				}
			}
		})
	}
	wg.Wait()
}

func values(kvs []store.KV) []string {
	var v []string
	for _, kv := range kvs {
		v = append(v, string(kv.Value))
	}
	return v
}

func equalKV(a, b store.KV) bool {
	return a.Key == b.Key && a.ModRev == b.ModRev && slices.Equal(a.Value, b.Value)
}

func compact(t testing.TB, target Target, rev int64) {
	t.Helper()
	if _, err := target.Etcd.Client().Compact(t.Context(), rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatalf("compact to %d: %v", rev, err)
	}
}
