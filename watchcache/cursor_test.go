package watchcache

import (
	"errors"
	"fmt"
	"testing"
)

// Each selection sees the same history in its own way.
func TestCursor_Selections(t *testing.T) {
	history := func(r *rig) {
		r.put(pod{"a/one", "", "web"})                             // 101
		r.put(pod{"b/one", "n1", "web"}, pod{"a/two", "", ""})     // 102 103
		r.put(pod{"a/one", "n1", "web"})                           // 104 bound
		r.put(pod{"a/one", "n2", "db"}, pod{"b/one", "n1", "web"}) // 105 106
		r.del("b/one")                                             // 107
		r.put(pod{"b/one", "n2", "web"})                           // 108 created again
		r.put(pod{"a/two", "n2", "web"})                           // 109
		r.del("a/one", "a/two")                                    // 110 111
	}
	cases := []struct {
		name, namespace, object, labels, fields string
		want                                    []string
	}{
		{name: "everything", want: []string{
			"ADDED 101 a/one@101", "ADDED 102 b/one@102", "ADDED 103 a/two@103", "MODIFIED 104 a/one@104", "MODIFIED 105 a/one@105",
			"MODIFIED 106 b/one@106", "DELETED 107 b/one@106", "ADDED 108 b/one@108", "MODIFIED 109 a/two@109", "DELETED 110 a/one@105",
			"DELETED 111 a/two@109"}},
		{name: "namespace", namespace: "b", want: []string{
			"ADDED 102 b/one@102", "MODIFIED 106 b/one@106", "DELETED 107 b/one@106", "ADDED 108 b/one@108"}},
		{name: "namespace as field", fields: "metadata.namespace=b", want: []string{
			"ADDED 102 b/one@102", "MODIFIED 106 b/one@106", "DELETED 107 b/one@106", "ADDED 108 b/one@108"}},
		{name: "name", namespace: "a", object: "two", want: []string{
			"ADDED 103 a/two@103", "MODIFIED 109 a/two@109", "DELETED 111 a/two@109"}},
		{name: "name as field", namespace: "a", fields: "metadata.name=two", want: []string{
			"ADDED 103 a/two@103", "MODIFIED 109 a/two@109", "DELETED 111 a/two@109"}},
		{name: "name in all namespaces", fields: "metadata.name=two", want: []string{
			"ADDED 103 a/two@103", "MODIFIED 109 a/two@109", "DELETED 111 a/two@109"}},
		{name: "node", fields: "spec.nodeName=n1", want: []string{
			"ADDED 102 b/one@102", "ADDED 104 a/one@104", "DELETED 105 a/one@104", "MODIFIED 106 b/one@106", "DELETED 107 b/one@106"}},
		{name: "no node", fields: "spec.nodeName=", want: []string{
			"ADDED 101 a/one@101", "ADDED 103 a/two@103", "DELETED 104 a/one@101", "DELETED 109 a/two@103"}},
		{name: "node and namespace", namespace: "a", fields: "spec.nodeName=n1", want: []string{
			"ADDED 104 a/one@104", "DELETED 105 a/one@104"}},
		{name: "node and name", namespace: "a", fields: "spec.nodeName=n2,metadata.name=one", want: []string{
			"ADDED 105 a/one@105", "DELETED 110 a/one@105"}},
		{name: "another node", fields: "spec.nodeName!=n1", want: []string{
			"ADDED 101 a/one@101", "ADDED 103 a/two@103", "DELETED 104 a/one@101", "ADDED 105 a/one@105", "ADDED 108 b/one@108",
			"MODIFIED 109 a/two@109", "DELETED 110 a/one@105", "DELETED 111 a/two@109"}},
		{name: "label", labels: "app=web", want: []string{
			"ADDED 101 a/one@101", "ADDED 102 b/one@102", "MODIFIED 104 a/one@104", "DELETED 105 a/one@104", "MODIFIED 106 b/one@106",
			"DELETED 107 b/one@106", "ADDED 108 b/one@108", "ADDED 109 a/two@109", "DELETED 111 a/two@109"}},
		{name: "label and node", labels: "app=web", fields: "spec.nodeName=n2", want: []string{
			"ADDED 108 b/one@108", "ADDED 109 a/two@109", "DELETED 111 a/two@109"}},
		{name: "without label", namespace: "a", labels: "!app", want: []string{
			"ADDED 103 a/two@103", "DELETED 109 a/two@103"}},
		{name: "contradiction", namespace: "a", fields: "metadata.namespace=b"},
		{name: "two names", namespace: "a", object: "one", fields: "metadata.name=two"},
		{name: "no such namespace", namespace: "c"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			sel := Selection{Namespace: tc.namespace, Name: tc.object, Labels: mustLabels(t, tc.labels), Fields: mustFields(t, tc.fields)}
			for _, events := range []int{1, 3, 64} {
				r := newRig(t, chunkEvents(events))
				live := r.watch(WatchOptions{Selection: sel, After: 100})
				history(r)
				wantEvents(t, drain(t, live), tc.want...)

				// Whoever starts somewhere in the window sees the rest of it, with and without others on the branch.
				for range 2 {
					for after := int64(100); after <= 112; after++ {
						var want []string
						for _, ev := range tc.want {
							var rev int64
							var typ string
							if _, err := fmt.Sscan(ev, &typ, &rev); err != nil {
								t.Fatal(err)
							}
							if rev > after {
								want = append(want, ev)
							}
						}
						c := r.watch(WatchOptions{Selection: sel, After: after})
						wantEvents(t, drain(t, c), want...)
						c.Close()
					}
					live.Close()
				}
				if n := len(r.pods.log.byNamespace) + len(r.pods.log.byKey) + len(r.pods.log.byIndex[0]); n != 0 {
					t.Errorf("%d branches are left without a watcher", n)
				}
			}
		})
	}
}

func TestCursor_InitialEvents(t *testing.T) {
	r := newRig(t)
	r.put(pod{"a/one", "n1", ""}, pod{"b/two", "n2", ""}, pod{"a/two", "n1", ""})
	r.put(pod{"a/one", "n1", "web"})
	r.progress(5)
	all := r.watch(WatchOptions{Initial: r.pods.Snapshot(), EndBookmark: true})
	quiet := r.watch(WatchOptions{Initial: r.pods.Snapshot()})
	node := r.watch(WatchOptions{Initial: r.pods.Snapshot(), EndBookmark: true, Selection: Selection{Fields: mustFields(t, "spec.nodeName=n1")}})
	none := r.watch(WatchOptions{Initial: r.pods.Snapshot(), EndBookmark: true, Selection: Selection{Namespace: "none"}})
	// What happens now is after the snapshot, whenever the cursor reads it.
	r.put(pod{"a/three", "n1", ""})
	r.del("b/two")
	wantEvents(t, drain(t, all), "ADDED 104 a/one@104", "ADDED 103 a/two@103", "ADDED 102 b/two@102", "BOOKMARK 109",
		"ADDED 110 a/three@110", "DELETED 111 b/two@102")
	wantEvents(t, drain(t, quiet), "ADDED 104 a/one@104", "ADDED 103 a/two@103", "ADDED 102 b/two@102",
		"ADDED 110 a/three@110", "DELETED 111 b/two@102")
	wantEvents(t, drain(t, node), "ADDED 104 a/one@104", "ADDED 103 a/two@103", "BOOKMARK 109", "ADDED 110 a/three@110")
	wantEvents(t, drain(t, none), "BOOKMARK 109")
}

// An initial list may come from any revision in the window.
func TestCursor_InitialEventsOfThePast(t *testing.T) {
	r := newRig(t)
	r.put(pod{"a/one", "n1", ""}, pod{"a/two", "n1", ""})
	r.put(pod{"a/one", "n2", ""})
	past, err := r.pods.SnapshotAt(101)
	if err != nil {
		t.Fatal(err)
	}
	c := r.watch(WatchOptions{Initial: past, EndBookmark: true, Selection: Selection{Fields: mustFields(t, "spec.nodeName=n1")}})
	wantEvents(t, drain(t, c), "ADDED 101 a/one@101", "BOOKMARK 101", "ADDED 102 a/two@102", "DELETED 103 a/one@101")
}

func TestCursor_StartsInTheFuture(t *testing.T) {
	for _, sel := range []Selection{{}, {Namespace: "a"}} {
		r := newRig(t)
		c := r.watch(WatchOptions{After: 103, Selection: sel})
		r.put(pod{"a/one", "", ""}, pod{"a/two", "", ""})
		wantEvents(t, drain(t, c))
		if got := c.Progress(); got != 0 {
			t.Errorf("progress %d before the start has been reached, want 0", got)
		}
		r.put(pod{"a/three", "", ""}, pod{"a/four", "", ""})
		wantEvents(t, drain(t, c), "ADDED 104 a/four@104")
		if got := c.Progress(); got != 104 {
			t.Errorf("progress %d, want 104", got)
		}
	}
}

func TestCursor_Progress(t *testing.T) {
	r := newRig(t)
	r.put(pod{"a/one", "", ""})
	c := r.watch(WatchOptions{Initial: r.pods.Snapshot(), EndBookmark: true, Selection: Selection{Namespace: "a"}})
	want := func(when string, rev int64) {
		t.Helper()
		if got := c.Progress(); got != rev {
			t.Errorf("%s: progress %d, want %d", when, got, rev)
		}
	}
	want("before the initial events", 0)
	next := func(want EventType) {
		t.Helper()
		if ev, ok, err := c.Next(); !ok || err != nil || ev.Type != want {
			t.Fatalf("got %v %v %v, want %s", ev.Type, ok, err, want)
		}
	}
	next(Added)
	want("among the initial events", 0)
	next(Bookmark)
	want("behind the initial events", 101)
	r.progress(10)
	want("after progress of other resources", 111)
	r.put(pod{"b/one", "", ""})
	want("after events for others", 112)
	r.put(pod{"a/two", "", ""}, pod{"a/three", "", ""})
	want("with events pending", 112)
	next(Added)
	want("between two events", 113)
	next(Added)
	want("behind them", 114)
}

// A transaction may write several objects at one revision. A bookmark must not come between them.
func TestCursor_ProgressWithinTransaction(t *testing.T) {
	for _, namespace := range []string{"", "a"} {
		r := newRig(t)
		c := r.watch(WatchOptions{After: 100, Selection: Selection{Namespace: namespace}})
		b := transaction(t, 105, "a/one", "a/two", "a/three")
		r.server.apply(b)
		late := r.watch(WatchOptions{After: 100, Selection: Selection{Namespace: namespace}}) // starts behind its branch
		for _, c := range []*Cursor{c, late} {
			for i, want := range []int64{104, 104, 105} {
				if _, ok, err := c.Next(); !ok || err != nil {
					t.Fatal(ok, err)
				}
				if got := c.Progress(); got != want {
					t.Errorf("progress after event %d of a transaction is %d, want %d", i, got, want)
				}
			}
		}
	}
}

// What leaves is encoded once, however many see it go.
func TestCursor_SharesTheDeleted(t *testing.T) {
	r := newRig(t)
	r.put(pod{"a/one", "n1", ""})
	all, ns := r.watch(WatchOptions{After: r.rev}), r.watch(WatchOptions{After: r.rev, Selection: Selection{Namespace: "a"}})
	r.del("a/one")
	x, _, _ := all.Next()
	y, _, _ := ns.Next()
	if x.Type != Deleted || x.Object != y.Object {
		t.Errorf("two watchers got %v %p and %v %p", x.Type, x.Object, y.Type, y.Object)
	}
}

func TestCursor_Notify(t *testing.T) {
	r := newRig(t)
	calls := map[string]int{}
	wait := func(name string, c *Cursor) { c.Notify(func() { calls[name]++ }) }
	want := func(when, want string) {
		t.Helper()
		if got := fmt.Sprint(calls); got != want {
			t.Errorf("%s: calls %s, want %s", when, got, want)
		}
		clear(calls)
	}
	all := r.watch(WatchOptions{After: 100})
	a := r.watch(WatchOptions{After: 100, Selection: Selection{Namespace: "a"}})
	n1 := r.watch(WatchOptions{After: 100, Selection: Selection{Fields: mustFields(t, "spec.nodeName=n1")}})
	wait("all", all)
	wait("a", a)
	wait("n1", n1)
	want("while nothing happens", "map[]")
	r.progress(3)
	want("after progress", "map[]")
	r.put(pod{"b/one", "n2", ""}, pod{"b/two", "n2", ""}, pod{"b/one", "n2", ""})
	want("one batch for one of them", "map[all:1]")
	r.put(pod{"b/one", "n1", ""})
	want("who has not asked again is not called", "map[n1:1]")
	wait("all", all)
	want("something is pending", "map[all:1]")
	drain(t, all)
	wait("all", all)
	a.Close()
	r.put(pod{"a/one", "", ""})
	want("after a close", "map[all:1]")
	drain(t, n1)
	n1.Notify(func() { t.Error("a replaced function was called") })
	wait("n1", n1)
	r.put(pod{"b/one", "", ""})
	want("event that leaves the branch", "map[n1:1]")
	drain(t, n1)
	wait("n1", n1)
	r.reload()
	want("after a reload", "map[n1:1]")
	if _, err := drainErr(t, n1); !errors.Is(err, ErrExpired) {
		t.Errorf("a cursor from before a reload ends with %v, want ErrExpired", err)
	}
	wait("n1", n1)
	want("at an ended cursor", "map[n1:1]")
}

// A watch that starts behind its branch, and is read late, goes over from the main branch to its own without a seam,
// wherever the chunks are cut.
func TestCursor_CatchUp(t *testing.T) {
	writes := []pod{{"a/one", "n1", ""}, {"b/one", "n2", ""}, {"a/two", "n1", ""}, {"b/two", "n2", ""}, {"b/one", "n1", ""},
		{"b/three", "n2", ""}, {"a/one", "n2", ""}, {"b/two", "n2", ""}, {"b/four", "", ""}, {"a/two", "n1", ""}}
	for _, sel := range []Selection{{Namespace: "a"}, {Fields: mustFields(t, "spec.nodeName=n1")}, {Namespace: "b", Name: "one"}} {
		var want []string
		for chunk := 1; chunk <= 6; chunk++ {
			for before := range len(writes) + 1 {
				for read := range 4 {
					r := newRig(t, chunkEvents(chunk))
					for _, p := range writes[:before] {
						r.put(p)
					}
					c := r.watch(WatchOptions{After: 100, Selection: sel})
					var got []string
					for range read { // some at once
						if ev, ok, err := c.Next(); ok && err == nil {
							got = append(got, fmt.Sprintf("%s %d %s@%s", ev.Type, ev.Rev, ev.Object.Key()[len(pods.Prefix):], serialOf(t, ev.Object)))
						}
					}
					for _, p := range writes[before:] {
						r.put(p)
					}
					got = append(got, drain(t, c)...)
					if want == nil {
						want = got // of a cursor that was on its branch from the beginning
					}
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("%v, chunks of %d, started after %d writes, %d read at once\n got %q\nwant %q", sel, chunk, before, read, got, want)
					}
					if got := c.Progress(); got != r.rev {
						t.Fatalf("progress %d at the end, want %d", got, r.rev)
					}
				}
			}
		}
		if len(want) < 2 {
			t.Errorf("%v sees only %q", sel, want)
		}
	}
}
