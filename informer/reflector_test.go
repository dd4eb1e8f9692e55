package informer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/informer/internal/fakeapi"
	"vigil/informer/internal/wire"
	"vigil/internal/eventually"
	"vigil/object"
)

// versions is what an informer holds, as fakeapi.Server.Pods says it.
func versions(i *Informer) map[string]string {
	out := map[string]string{}
	for _, o := range i.Indexer().List("") {
		out[o.Key()] = o.ResourceVersion()
	}
	return out
}

func checkComplete(t *testing.T, i *Informer, s *fakeapi.Server) {
	t.Helper()
	want, version := s.Pods()
	caughtUp(t, i, version)
	if diff := cmp.Diff(want, versions(i)); diff != "" {
		t.Errorf("the informer at %s differs from the server (-server +informer):\n%s", version, diff)
	}
}

// Connections are cut after random numbers of bytes, within TLS records, frames and lists, while pods are written. Each
// event must be received exactly once over all the watches, without a second list.
func TestReflector_ResumesAfterCutsWithoutLossOrRepetition(t *testing.T) {
	for _, json := range []bool{false, true} {
		t.Run(fmt.Sprintf("json=%v", json), func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Log("seed", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			s := fakeapi.New(t)
			for n := range 20 {
				s.Put(pod("a", fmt.Sprint("pod-", n)))
			}
			f := newTestFactory(t, s)
			res := podResource
			if json {
				res.Type = &object.Type{}
			}
			i := f.Informer(res)
			h := newHistory()
			i.AddHandler(h.handler(t))
			start(t, f)

			s.CutConnections(func() int { return 3000 + rand.IntN(12000) }) // the handshake and some events
			s.DropConnections()
			const writes = 600
			for n := range writes {
				switch key := fmt.Sprint("pod-", rng.IntN(30)); {
				case rng.IntN(5) == 0 && s.Delete("a", key) != "":
				default:
					s.Put(pod("a", key))
				}
				if n%20 == 0 {
					_, version := s.Pods()
					caughtUp(t, i, version)
				}
			}
			s.CutConnections(nil)
			s.DropConnections()
			checkComplete(t, i, s)
			h.check(t, versions(i))

			var received float64
			for _, typ := range []wire.Type{wire.Added, wire.Modified, wire.Deleted} {
				received += value(t, i.metrics.events[typ])
			}
			if received != writes {
				t.Errorf("%v events received, want %d", received, writes)
			}
			r := s.Requests()
			if r.StreamingLists != 1 || r.Lists != 0 {
				t.Errorf("requests: %+v, want one streaming list", r)
			}
			if r.Watches < 5 {
				t.Errorf("only %d watches: the connections were hardly cut", r.Watches)
			}
		})
	}
}

// value reads a counter.
func value(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// history checks that what a handler is told of each object is a history: alternating lives, old always the state told last,
// versions growing.
type history struct {
	rec  recorder
	last map[string]string // version told last, by key; absent when the object is gone
	bad  []string
}

func newHistory() *history { return &history{last: map[string]string{}} }

func (h *history) handler(*testing.T) EventHandler {
	tell := func(what, key, old, now string) {
		h.rec.mu.Lock()
		defer h.rec.mu.Unlock()
		have, there := h.last[key]
		if (what == "add") == there || (what == "update" && old != have) || (now != "" && have != "" && older([]byte(now), []byte(have))) {
			h.bad = append(h.bad, fmt.Sprintf("%s %s %s>%s after %q", what, key, old, now, have))
		}
		if what == "delete" {
			delete(h.last, key)
		} else {
			h.last[key] = now
		}
	}
	return EventHandler{
		OnAdd:    func(o *Object, _ bool) { tell("add", o.Key(), "", o.ResourceVersion()) },
		OnUpdate: func(old, o *Object) { tell("update", o.Key(), old.ResourceVersion(), o.ResourceVersion()) },
		OnDelete: func(o *Object, _ bool) { tell("delete", o.Key(), "", o.ResourceVersion()) },
	}
}

// check waits until the handler has been told of the final state.
func (h *history) check(t *testing.T, want map[string]string) {
	t.Helper()
	eventually.True(t, "the handler was told the final state", func() bool {
		h.rec.mu.Lock()
		defer h.rec.mu.Unlock()
		return maps.Equal(h.last, want)
	})
	for _, b := range h.bad {
		t.Error("impossible history:", b)
	}
}

func TestReflector_RelistsWhenVersionIsGone(t *testing.T) {
	s := fakeapi.New(t)
	kept := s.Put(pod("a", "kept"))
	changed := s.Put(pod("a", "changed"))
	gone := s.Put(pod("a", "gone"))
	reborn := s.Put(pod("a", "reborn"))
	f := newTestFactory(t, s)
	i := f.Informer(podResource)
	rec := &recorder{}
	i.AddHandler(rec.handler())
	start(t, f)

	// While the informer cannot reach the server, everything happens and the history is forgotten.
	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	s.EndWatches()
	changedTo := s.Put(pod("a", "changed"))
	s.Delete("a", "gone")
	s.Delete("a", "reborn")
	rebornAs := s.Put(pod("a", "reborn"))
	added := s.Put(pod("a", "added"))
	s.Compact()
	s.Intercept(nil)

	got := rec.wait(t, 9)
	slices.Sort(got[4:])
	want := []string{
		"add a/added@" + added,
		"add a/reborn@" + rebornAs,
		"stale delete a/gone@" + gone,
		"stale delete a/reborn@" + reborn, // another uid: not the same object
		"update a/changed@" + changed + ">" + changedTo,
	}
	if diff := cmp.Diff(want, got[4:]); diff != "" {
		t.Errorf("what the handler was told after the relist, kept at %s (-want +got):\n%s", kept, diff)
	}
	checkComplete(t, i, s)
	if r := s.Requests(); r.StreamingLists != 2 || r.Lists != 0 {
		t.Errorf("requests: %+v, want two streaming lists", r)
	}
}

func TestReflector_ResumesFromBookmark(t *testing.T) {
	s := fakeapi.New(t)
	s.Put(pod("a", "one"))
	f := newTestFactory(t, s)
	res := podResource
	res.Namespace = "a"
	i := f.Informer(res)
	start(t, f)
	version := s.Put(pod("b", "not selected"))
	s.Bookmark()
	caughtUp(t, i, version)

	asked := make(chan string, 1)
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case asked <- r.URL.Query().Get("resourceVersion"):
		default:
		}
		return false
	})
	s.Compact()
	if got := <-asked; got != version {
		t.Errorf("watch resumed from %s, want the bookmark's %s", got, version)
	}
	checkOneList(t, s)
}

func checkOneList(t *testing.T, s *fakeapi.Server) {
	t.Helper()
	if r := s.Requests(); r.StreamingLists != 1 || r.Lists != 0 {
		t.Errorf("requests: %+v, want one streaming list", r)
	}
}

// noStreaming refuses streaming lists as servers without them do.
func noStreaming(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Query().Get("sendInitialEvents") == "" {
		return false
	}
	fakeapi.Fail(w, r, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
	return true
}

func TestReflector_FallsBackToPagedLists(t *testing.T) {
	for _, json := range []bool{false, true} {
		s := fakeapi.New(t)
		for n := range 50 {
			s.Put(pod("a", fmt.Sprint("pod-", n)))
		}
		s.SetPageSize(7)
		s.Intercept(noStreaming)
		f := newTestFactory(t, s)
		res := podResource
		if json {
			res.Type = &object.Type{}
		}
		i := f.Informer(res)
		start(t, f)
		if r := s.Requests(); r.Lists != 8 {
			t.Errorf("requests: %+v, want 8 pages", r)
		}
		s.Put(pod("a", "one"))
		checkComplete(t, i, s)
	}
}

func TestReflector_ListSurvivesSnapshotThatExpiresBetweenPages(t *testing.T) {
	s := fakeapi.New(t)
	for n := range 20 {
		s.Put(pod("a", fmt.Sprint("pod-", n)))
	}
	s.SetPageSize(7)
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("continue") != "" {
			s.Put(pod("a", "in between")) // the server keeps no old snapshots
		}
		return noStreaming(w, r)
	})
	f := newTestFactory(t, s)
	i := f.Informer(podResource)
	start(t, f)
	checkComplete(t, i, s)
	if r := s.Requests(); r.Lists != 3 {
		t.Errorf("requests: %+v, want two pages and a full list", r)
	}
}

func TestReflector_FallsBackWhenStreamingListsKeepBreaking(t *testing.T) {
	s := fakeapi.New(t)
	s.Put(pod("a", "one"))
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("sendInitialEvents") == "" {
			return false
		}
		w.Header().Set("Content-Type", mediaProto+";stream=watch")
		_, _ = w.Write(fakeapi.Frame("ADDED", pod("a", "one"), true)[:10])
		return true
	})
	f := newTestFactory(t, s)
	i := f.Informer(podResource)
	start(t, f)
	checkComplete(t, i, s)
	if r := s.Requests(); r.StreamingLists != 3 || r.Lists != 1 {
		t.Errorf("requests: %+v, want a list after three streaming lists that broke off", r)
	}
}

func TestReflector_ServerRestoredFromBackup(t *testing.T) {
	s := fakeapi.New(t)
	first := s.Put(pod("a", "one"))
	f := newTestFactory(t, s)
	i := f.Informer(podResource)
	rec := &recorder{}
	i.AddHandler(rec.handler())
	start(t, f)
	lost := s.Put(pod("a", "two"))
	rec.wait(t, 2)

	var refusals atomic.Int64 // lists that asked for a version from the lost future
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("sendInitialEvents") != "" && r.URL.Query().Get("resourceVersion") != "" {
			refusals.Add(1)
		}
		return false
	})
	rev, _ := strconv.ParseInt(first, 10, 64)
	s.Restore(rev)
	eventually.True(t, "the lost pod is told as deleted", func() bool {
		s.Bookmark() // tells the watch that was resumed from the future that time went back
		return slices.Contains(rec.told(), "stale delete a/two@"+lost)
	})
	s.Put(pod("a", "three"))
	checkComplete(t, i, s)
	if n := refusals.Load(); n != 0 {
		t.Errorf("%d lists asked for a version that never was", n)
	}
}

func TestReflector_TooLargeVersionIsReset(t *testing.T) {
	s := fakeapi.New(t)
	s.Put(pod("a", "one"))
	f := newTestFactory(t, s)
	i := f.Informer(podResource)
	start(t, f)
	version := s.Put(pod("a", "two"))
	caughtUp(t, i, version)

	// The history is gone, and the server that answers next is behind.
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		if q.Get("sendInitialEvents") != "" && q.Get("resourceVersion") != "" {
			fakeapi.Fail(w, r, fakeapi.TooLarge(9, 1))
			return true
		}
		if q.Get("sendInitialEvents") == "" {
			fakeapi.Fail(w, r, apierrors.NewResourceExpired("too old"))
			return true
		}
		return false
	})
	s.EndWatches()
	eventually.True(t, "a streaming list without a version", func() bool { return s.Requests().StreamingLists == 3 })
	s.Intercept(nil)
	checkComplete(t, i, s)
}

func TestReflector_HonoursRetryAfter(t *testing.T) {
	s := fakeapi.New(t)
	s.Put(pod("a", "one"))
	var refused atomic.Int64
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if refused.Add(1) > 1 {
			return false
		}
		fakeapi.Fail(w, r, apierrors.NewTooManyRequests("busy", 1))
		return true
	})
	f := newTestFactory(t, s)
	begin := time.Now()
	i := f.Informer(podResource)
	start(t, f)
	if took := time.Since(begin); took < time.Second {
		t.Errorf("came back after %v, the server asked for 1 s", took)
	}
	checkComplete(t, i, s)
	checkLists(t, s, 2)
}

func checkLists(t *testing.T, s *fakeapi.Server, streaming int) {
	t.Helper()
	if r := s.Requests(); r.StreamingLists != streaming || r.Lists != 0 {
		t.Errorf("requests: %+v, want %d streaming lists", r, streaming)
	}
}

func TestReflector_MalformedEventLeadsToRelist(t *testing.T) {
	s := fakeapi.New(t)
	s.Put(pod("a", "one"))
	f := newTestFactory(t, s)
	i := f.Informer(podResource)
	start(t, f)
	var broken atomic.Bool
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("sendInitialEvents") != "" || broken.Swap(true) {
			return false
		}
		w.Header().Set("Content-Type", mediaProto+";stream=watch")
		_, _ = w.Write([]byte{0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff})
		return true
	})
	s.EndWatches()
	eventually.True(t, "a second streaming list", func() bool { return s.Requests().StreamingLists == 2 })
	s.Put(pod("a", "two"))
	checkComplete(t, i, s)
}

// A server that ends every watch at once must not be asked as fast as the machine can.
func TestReflector_BacksOffFromUselessWatches(t *testing.T) {
	s := fakeapi.New(t)
	s.Put(pod("a", "one"))
	f := newTestFactory(t, s)
	f.timing.backoffMin, f.timing.backoffMax = 20*time.Millisecond, 40*time.Millisecond
	f.Informer(podResource)
	start(t, f)
	first := make(chan time.Time, 1)
	tenth := make(chan time.Time, 1)
	var n atomic.Int64
	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		switch n.Add(1) {
		case 1:
			first <- time.Now()
		case 10:
			tenth <- time.Now()
		}
		w.Header().Set("Content-Type", mediaProto+";stream=watch")
		return true
	})
	s.EndWatches()
	if took := (<-tenth).Sub(<-first); took < 8*20*time.Millisecond {
		t.Errorf("ten watches in %v", took)
	}
}

func TestBackoff_GrowsToItsLimitWithJitter(t *testing.T) {
	d := defaultTiming()
	b := backoff{min: d.backoffMin, max: d.backoffMax}
	base := d.backoffMin
	for n := range 10 {
		if got := b.next(); got < base || got >= 2*base {
			t.Errorf("wait %d is %v, want one of [%v, %v)", n, got, base, 2*base)
		}
		base = min(2*base, d.backoffMax)
	}
	b.reset()
	if got := b.next(); got >= 2*d.backoffMin {
		t.Errorf("after a reset the wait is %v", got)
	}
}

func TestResource_Requests(t *testing.T) {
	for want, r := range map[string]Resource{
		"/api/v1/pods":                        {Version: "v1", Plural: "pods"},
		"/api/v1/namespaces/a/pods":           {Version: "v1", Plural: "pods", Namespace: "a"},
		"/apis/apps/v1/deployments":           {Group: "apps", Version: "v1", Plural: "deployments"},
		"/apis/x.io/v2/namespaces/b%2Fc/kind": {Group: "x.io", Version: "v2", Plural: "kind", Namespace: "b/c"},
	} {
		if got := r.path(); got != want {
			t.Errorf("path %s, want %s", got, want)
		}
	}
	if got := podResource.accept(true); got != mediaProto+",application/json" {
		t.Error("Accept for pods:", got)
	}
	if got := (Resource{}).accept(true); got != "application/json" {
		t.Error("Accept for custom resources:", got)
	}
	if got := (Resource{MetadataOnly: true}).accept(false); !strings.HasPrefix(got, mediaProto+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,") {
		t.Error("Accept for metadata:", got)
	}
}
