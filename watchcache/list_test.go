package watchcache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"vigil/store"
)

func TestSnapshot_List(t *testing.T) {
	r := newRig(t)
	r.put(pod{"b/one", "n1", "web"}, pod{"a/two", "n2", "web"}, pod{"ab/one", "n1", ""}, pod{"a/one", "", "db"}, pod{"a/three", "n1", "web"},
		pod{"a/four", "n1", "db"})
	cases := []struct {
		name      string
		sel       Selection
		from      string
		limit     int
		want      []string
		next      string
		remaining int64
	}{
		{name: "everything", want: []string{"a/four", "a/one", "a/three", "a/two", "ab/one", "b/one"}},
		{name: "first page", limit: 4, want: []string{"a/four", "a/one", "a/three", "a/two"}, next: "a/two\x00", remaining: 2},
		{name: "second page", from: "a/two\x00", limit: 4, want: []string{"ab/one", "b/one"}},
		{name: "exact page", limit: 6, want: []string{"a/four", "a/one", "a/three", "a/two", "ab/one", "b/one"}},
		{name: "from is inclusive", from: "a/two", limit: 1, want: []string{"a/two"}, next: "a/two\x00", remaining: 2},
		{name: "from a key that has gone", from: "a/s", limit: 1, want: []string{"a/three"}, next: "a/three\x00", remaining: 3},
		{name: "from behind the end", from: "c", want: nil},
		{name: "namespace", sel: Selection{Namespace: "a"}, want: []string{"a/four", "a/one", "a/three", "a/two"}},
		{name: "namespace, page", sel: Selection{Namespace: "a"}, limit: 3, want: []string{"a/four", "a/one", "a/three"}, next: "three\x00", remaining: 1},
		{name: "namespace, next page", sel: Selection{Namespace: "a"}, from: "three\x00", limit: 3, want: []string{"a/two"}},
		{name: "namespace that is a prefix of another", sel: Selection{Namespace: "ab"}, want: []string{"ab/one"}},
		{name: "no such namespace", sel: Selection{Namespace: "c"}, want: nil},
		{name: "name", sel: Selection{Namespace: "a", Name: "one"}, want: []string{"a/one"}, remaining: -1},
		{name: "no such name", sel: Selection{Namespace: "b", Name: "two"}, want: nil, remaining: -1},
		{name: "name in all namespaces", sel: Selection{Fields: mustFields(t, "metadata.name=one")}, want: []string{"a/one", "ab/one", "b/one"}, remaining: -1},
		{name: "index", sel: Selection{Fields: mustFields(t, "spec.nodeName=n1")}, want: []string{"a/four", "a/three", "ab/one", "b/one"}, remaining: -1},
		{name: "index, page", sel: Selection{Fields: mustFields(t, "spec.nodeName=n1")}, limit: 2, want: []string{"a/four", "a/three"}, next: "a/three\x00", remaining: -1},
		{name: "index, next page", sel: Selection{Fields: mustFields(t, "spec.nodeName=n1")}, from: "a/three\x00", limit: 2, want: []string{"ab/one", "b/one"}, remaining: -1},
		{name: "index in a namespace", sel: Selection{Namespace: "ab", Fields: mustFields(t, "spec.nodeName=n1")}, want: []string{"ab/one"}, remaining: -1},
		{name: "index of the absent", sel: Selection{Fields: mustFields(t, "spec.nodeName=")}, want: []string{"a/one"}, remaining: -1},
		{name: "index and label", sel: Selection{Fields: mustFields(t, "spec.nodeName=n1"), Labels: mustLabels(t, "app=web")}, want: []string{"a/three", "b/one"}, remaining: -1},
		{name: "two fields", sel: Selection{Fields: mustFields(t, "spec.nodeName!=n1,spec.nodeName!=")}, want: []string{"a/two"}, remaining: -1},
		{name: "two values of one field", sel: Selection{Fields: mustFields(t, "spec.nodeName=n1,spec.nodeName=n2")}, want: nil, remaining: -1},
		{name: "label", sel: Selection{Labels: mustLabels(t, "app=web")}, want: []string{"a/three", "a/two", "b/one"}, remaining: -1},
		{name: "label, filled page", sel: Selection{Labels: mustLabels(t, "app=web")}, limit: 2, want: []string{"a/three", "a/two"}, next: "a/two\x00", remaining: -1},
		{name: "label, last page is known to be", sel: Selection{Labels: mustLabels(t, "app=db")}, limit: 2, want: []string{"a/four", "a/one"}, remaining: -1},
		{name: "contradiction", sel: Selection{Namespace: "a", Fields: mustFields(t, "metadata.namespace=b")}, want: nil, remaining: -1},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			page, err := r.pods.Snapshot().List(tc.sel, tc.from, tc.limit)
			if err != nil {
				t.Fatal(err)
			}
			if got := names(page.Items); !slices.Equal(got, tc.want) || page.Next != tc.next || page.Remaining != tc.remaining {
				t.Errorf("got %v, next %q, %d remaining\nwant %v, next %q, %d remaining", got, page.Next, page.Remaining, tc.want, tc.next, tc.remaining)
			}
		})
	}
}

// Pages of any size put together are the list, and what remains is what comes.
func TestSnapshot_ListPages(t *testing.T) {
	r := newRig(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		r.put(pod{fmt.Sprintf("ns%d/p%d", rnd.IntN(5), rnd.IntN(1000)), fmt.Sprintf("n%d", rnd.IntN(3)), []string{"web", "db"}[rnd.IntN(2)]})
	}
	snap := r.pods.Snapshot()
	for _, sel := range []Selection{{}, {Namespace: "ns3"}, {Labels: mustLabels(t, "app=web")}, {Fields: mustFields(t, "spec.nodeName=n1")}} {
		all := names(mustList(t, snap, sel).Items)
		for limit := 1; limit < 40; limit += 3 {
			var got []string
			for from := ""; ; {
				page, err := snap.List(sel, from, limit)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, names(page.Items)...)
				if page.Remaining >= 0 && page.Remaining != int64(len(all)-len(got)) {
					t.Errorf("%d remaining, want %d", page.Remaining, len(all)-len(got))
				}
				if from = page.Next; from == "" {
					break
				}
			}
			if !slices.Equal(got, all) {
				t.Errorf("pages of %d: %d objects, want %d", limit, len(got), len(all))
			}
		}
	}
}

// One object that cannot be read does not stop the feed; it is an error for those it concerns, and only for them.
func TestBroken(t *testing.T) {
	r := newRig(t)
	r.put(pod{"a/one", "n1", ""}, pod{"b/one", "n1", ""})
	w := r.watch(WatchOptions{After: r.rev})
	r.raw("/registry/pods/a/one", []byte("k8s\x00 rubbish"))
	r.raw("/registry/pods/a/never", []byte("rubbish"))
	r.put(pod{"b/two", "n1", ""})
	wantEvents(t, drain(t, w), "ADDED 105 b/two@105")
	snap := r.pods.Snapshot()
	if _, ok := snap.Get("/registry/pods/a/one"); ok {
		t.Error("a broken object can be got")
	}
	if _, ok := r.pods.Get("/registry/pods/a/one"); ok {
		t.Error("a broken object can be got")
	}
	if err := snap.Broken("/registry/pods/a/one"); !errors.Is(err, ErrBroken) {
		t.Errorf("get: %v, want ErrBroken", err)
	}
	if err := snap.Broken("/registry/pods/a/two"); err != nil {
		t.Errorf("get of another: %v", err)
	}
	for _, tc := range []struct {
		sel    Selection
		broken string
	}{
		{Selection{}, "/registry/pods/a/never,/registry/pods/a/one"},
		{Selection{Namespace: "a"}, "/registry/pods/a/never,/registry/pods/a/one"},
		{Selection{Namespace: "a", Name: "one"}, "/registry/pods/a/one"},
		{Selection{Fields: mustFields(t, "spec.nodeName=n1")}, "/registry/pods/a/never,/registry/pods/a/one"},
		{Selection{Namespace: "a", Name: "two"}, ""},
		{Selection{Namespace: "b"}, ""},
	} {
		var broken *BrokenError
		keys := func(err error) string {
			if errors.As(err, &broken) {
				return strings.Join(broken.Keys, ",")
			}
			return fmt.Sprint(err)
		}
		want := tc.broken
		if want == "" {
			want = "<nil>"
		}
		if _, err := snap.List(tc.sel, "", 0); keys(err) != want {
			t.Errorf("list %v: %v, want %s", tc.sel, err, want)
		}
		if _, err := r.pods.Watch(WatchOptions{Initial: snap, Selection: tc.sel}); keys(err) != want {
			t.Errorf("initial events %v: %v, want %s", tc.sel, err, want)
		}
	}
	r.put(pod{"a/never", "n1", ""})
	r.del("a/one")
	wantEvents(t, drain(t, w), "ADDED 106 a/never@106", "DELETED 107 a/one@101")
	if got := names(mustList(t, r.pods.Snapshot(), Selection{}).Items); !slices.Equal(got, []string{"a/never", "b/one", "b/two"}) {
		t.Errorf("after repair: %v", got)
	}
}

func TestRoutes(t *testing.T) {
	s := newServer(noStore{}, Config{}, defaultTuning)
	add := func(prefix string) *Cache { return s.Add(Resource{Name: prefix, Prefix: prefix, Type: podType}) }
	podsCache, specs, endpoints := add("/registry/pods/"), add("/registry/services/specs/"), add("/registry/services/endpoints/")
	v1, v2 := add("/registry/events/"), add("/registry/events/")
	outer, inner := add("/registry/example.com/"), add("/registry/example.com/widgets/")
	for range 2 { // the last answer is remembered
		for key, want := range map[string][]*Cache{
			"/registry/pods/a/b":                 {podsCache},
			"/registry/pods/":                    {podsCache},
			"/registry/podtemplates/a/b":         nil,
			"/registry/services/specs/a/b":       {specs},
			"/registry/services/endpoints/a/b":   {endpoints},
			"/registry/services/other/a/b":       nil,
			"/registry/masterleases/1.2.3.4":     nil,
			"/registry/health":                   nil,
			"/registry/events/a/b":               {v1, v2},
			"/registry/example.com/widgets/a/b":  {inner},
			"/registry/example.com/gadgets/a/b":  {outer},
			"/registry/example.com/widgetsmith/": {outer},
		} {
			if got := s.routes.find(key); !slices.Equal(got, want) {
				t.Errorf("%s goes to %d caches, want %d, or to others", key, len(got), len(want))
			}
		}
	}
	s.Remove(v1)
	s.Remove(podsCache)
	if got := s.routes.find("/registry/events/a/b"); !slices.Equal(got, []*Cache{v2}) {
		t.Errorf("events go to %d caches after one was removed", len(got))
	}
	if got := s.routes.find("/registry/pods/a/b"); got != nil {
		t.Error("a removed resource still has a route")
	}
}

// Foreign keys make no events but move the revision.
func TestServer_ForeignKeys(t *testing.T) {
	r := newRig(t)
	w := r.watch(WatchOptions{After: r.rev})
	r.server.apply(store.Batch{Rev: 105, Events: []store.Event{
		{Key: "/registry/masterleases/10.0.0.1", ModRev: 101, Value: []byte("x")},
		{Key: "/registry/podtemplates/a/b", ModRev: 105, Value: []byte("x")},
	}})
	wantEvents(t, drain(t, w))
	if r.server.Revision() != 105 || w.Progress() != 105 || r.pods.Snapshot().Revision() != 105 {
		t.Errorf("server at %d, progress %d, snapshot at %d, want 105", r.server.Revision(), w.Progress(), r.pods.Snapshot().Revision())
	}
}
