package watchcache

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tableRig has pods a at 101, b at 102, a again at 103, and the feed at 110. The store is at storeRev, which the feed
// reaches when it is asked for progress.
func tableRig(t *testing.T, storeRev int64) *rig {
	r := newRig(t)
	st := &slowStore{server: r.server, rev: storeRev}
	r.server.store = st
	r.put(pod{"ns/a", "", ""})
	r.put(pod{"ns/b", "", ""})
	r.put(pod{"ns/a", "", ""})
	r.progress(7)
	return r
}

const exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan

// The rows of the table of list semantics: what is read, and whether the limit counts.
func TestListFreshness_Table(t *testing.T) {
	cases := []struct {
		rv    string
		match metav1.ResourceVersionMatch
		limit int64
		want  string // the revision served, or the error
		whole bool
	}{
		{rv: "", want: "120"},
		{rv: "", limit: 5, want: "120"},
		{rv: "0", want: "110", whole: true},
		{rv: "0", match: notOlder, want: "110", whole: true},
		{rv: "0", limit: 5, want: "110", whole: true},
		{rv: "0", match: notOlder, limit: 5, want: "110", whole: true},
		{rv: "102", want: "110"},
		{rv: "115", want: "120"},
		{rv: "102", limit: 5, want: "102"},
		{rv: "102", match: notOlder, want: "110"},
		{rv: "102", match: notOlder, limit: 5, want: "110"},
		{rv: "115", match: notOlder, limit: 5, want: "120"},
		{rv: "102", match: exact, want: "102"},
		{rv: "102", match: exact, limit: 5, want: "102"},
		{rv: "115", match: exact, want: "115"},
		{rv: "99", match: exact, want: "too old resource version: 99 (100)"},
		{rv: "99", limit: 5, want: "too old resource version: 99 (100)"},
		{rv: "99", match: notOlder, want: "110"},
		{rv: "500", want: "Too large resource version: 500, current: 120"},
		{rv: "500", match: notOlder, want: "Too large resource version: 500, current: 120"},
		{rv: "500", match: exact, want: "Too large resource version: 500, current: 120"},
		{rv: "18446744073709551615", want: "Too large resource version: 9223372036854775807, current: 120"},
		{rv: "abc", want: `invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`},
		{rv: "-1", want: `invalid resource version: resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax`},
	}
	for _, tc := range cases {
		t.Run(fmt.Sprintf("rv=%s match=%s limit=%d", tc.rv, tc.match, tc.limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := tableRig(t, 120)
				f, whole, err := ListFreshness(tc.rv, tc.match, tc.limit)
				got := served(t, r.pods, f, err)
				if got != tc.want || whole != tc.whole {
					t.Errorf("served %s, limit ignored: %v; want %s, %v", got, whole, tc.want, tc.whole)
				}
			})
		})
	}
}

func served(t *testing.T, c *Cache, f Freshness, err error) string {
	if err != nil {
		return err.Error()
	}
	snap, err := c.Read(t.Context(), f)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(snap.Revision())
}

// A token continues its own snapshot; one of an inconsistent continuation reads the newest.
func TestContinueFreshness_Table(t *testing.T) {
	for token, want := range map[int64]string{102: "102", -1: "120", 99: "too old resource version: 99 (100)"} {
		synctest.Test(t, func(t *testing.T) {
			r := tableRig(t, 120)
			if got := served(t, r.pods, ContinueFreshness(token), nil); got != want {
				t.Errorf("token at %d: served %s, want %s", token, got, want)
			}
		})
	}
}

// The rows of the table of watch start states. Each watch then sees one more pod, at 121.
func TestWatchFreshness_Table(t *testing.T) {
	yes, no := true, false
	const after = "ADDED 121 ns/c@121"
	initial := func(rev int) []string {
		return []string{"ADDED 103 ns/a@103", "ADDED 102 ns/b@102", fmt.Sprintf("BOOKMARK %d", rev), after}
	}
	cases := []struct {
		name string
		rv   string
		send *bool
		want []string
	}{
		{"unset", "", nil, initial(120)},
		{"zero", "0", nil, initial(110)},
		{"unset, initial events", "", &yes, initial(120)},
		{"zero, initial events", "0", &yes, initial(110)},
		{"N, initial events", "102", &yes, initial(110)},
		{"N not reached yet, initial events", "115", &yes, initial(120)},
		{"N ahead of the store, initial events", "500", &yes, []string{"Too large resource version: 500, current: 120"}},
		{"unset, no initial events", "", &no, []string{after}},
		{"zero, no initial events", "0", &no, []string{after}},
		{"N, no initial events", "101", &no, []string{"ADDED 102 ns/b@102", "MODIFIED 103 ns/a@103", after}},
		{"N", "101", nil, []string{"ADDED 102 ns/b@102", "MODIFIED 103 ns/a@103", after}},
		{"N, newest", "103", nil, []string{after}},
		{"N, oldest", "100", nil, []string{"ADDED 101 ns/a@101", "ADDED 102 ns/b@102", "MODIFIED 103 ns/a@103", after}},
		{"N too old", "99", nil, []string{"too old resource version: 99 (100)"}},
		{"N ahead of the store", "500", nil, []string{}},
		{"not a number", "abc", nil, []string{`invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := tableRig(t, 120)
				c, err := startWatch(t.Context(), r.pods, tc.rv, tc.send)
				if err != nil {
					wantEvents(t, []string{err.Error()}, tc.want...)
					return
				}
				r.rev = 120
				r.put(pod{"ns/c", "", ""})
				wantEvents(t, drain(t, c), tc.want...)
			})
		})
	}
}

func startWatch(ctx context.Context, c *Cache, rv string, send *bool) (*Cursor, error) {
	f, initial, err := WatchFreshness(rv, send)
	if err != nil {
		return nil, err
	}
	return c.StartWatch(ctx, f, initial, WatchOptions{EndBookmark: true})
}

func TestRead_NotReady(t *testing.T) {
	s := newServer(noStore{}, Config{}, defaultTuning)
	c := s.Add(pods)
	if _, err := c.Read(t.Context(), Any()); !errors.Is(err, ErrNotReady) {
		t.Errorf("read: %v, want ErrNotReady", err)
	}
	if _, err := c.Watch(WatchOptions{}); !errors.Is(err, ErrNotReady) {
		t.Errorf("watch: %v, want ErrNotReady", err)
	}
	if _, err := c.SnapshotAt(5); !errors.Is(err, ErrNotReady) {
		t.Errorf("snapshot at a revision: %v, want ErrNotReady", err)
	}
	if _, ok := c.Get("/registry/pods/a/b"); ok || c.Len() != 0 || c.Snapshot().Len() != 0 {
		t.Error("a cache that is not loaded has objects")
	}
	if page := mustList(t, c.Snapshot(), Selection{Fields: mustFields(t, "spec.nodeName=n1")}); len(page.Items) != 0 {
		t.Error("a cache that is not loaded lists objects")
	}
}
