package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/apiservertest"
	"vigil/internal/eventually"
	"vigil/kinds"
	"vigil/object"
)

// widgets is a resource that comes and goes while the server runs.
var widgets = schema.GroupVersionResource{Group: "stable.example.com", Version: "v1", Resource: "widgets"}

// widgetRow is a row for it. What it stores has the fields of config maps.
func widgetRow() *kinds.Kind {
	return &kinds.Kind{
		GVK: widgets.GroupVersion().WithKind("Widget"), Resource: widgets.Resource, Singular: "widget", Namespaced: true,
		Path: "stable.example.com/widgets",
		Type: &object.Type{
			APIVersion: widgets.GroupVersion().String(), Kind: "Widget", Namespaced: true,
			New: func() kruntime.Object { return &corev1.ConfigMap{} },
		},
		New:     func() kinds.Object { return &corev1.ConfigMap{} },
		NewList: func() kruntime.Object { return &corev1.ConfigMapList{} },
	}
}

const (
	widgetsPath = "/apis/stable.example.com/v1"
	widgetsIn   = widgetsPath + "/namespaces/a/widgets"
)

// TestServe_UnderLoad adds and removes a kind again and again while clients of all sorts use others. None of their requests fails, their watches
// see every event and none twice, the kind can be used as soon as discovery shows it, its watches end cleanly when it goes, and no goroutine stays.
func TestServe_UnderLoad(t *testing.T) {
	s, c, k := start(t)
	namespace(t, k, "a")
	load := newServeLoad(t, s, k)
	rounds := 12
	if testing.Short() {
		rounds = 5
	}
	var before int
	for round := range rounds {
		if round == 2 { // connections are open by now, and pools are filled
			before = runtime.NumGoroutine()
		}
		row := widgetRow()
		used := make(chan error, 1)
		go func() { used <- useOnceShown(t.Context(), c) }()
		if err := s.Serve(t.Context(), nil, []*kinds.Kind{row}); err != nil {
			t.Fatal(err)
		}
		if err := <-used; err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		from := "&resourceVersion=" + c.list(widgetsPath+"/widgets").Metadata.ResourceVersion
		streams := []*stream{
			c.watch(widgetsIn + "?watch=true" + from),                                                     // driven by the workers
			c.watch(widgetsIn+"?watch=true"+from, "Accept: application/json;as=Table;g=meta.k8s.io;v=v1"), // by a goroutine of its own
		}
		if r := c.do(http.MethodDelete, widgetsIn+"/early", ""); r.code != http.StatusOK {
			t.Fatalf("round %d: delete: %d %s", round, r.code, r.body)
		}
		eventually.True(t, "the cache is empty", func() bool { return s.Cache(row).Len() == 0 })
		if err := s.Serve(t.Context(), []*kinds.Kind{row}, nil); err != nil {
			t.Fatal(err)
		}
		for _, w := range streams {
			if e, ok := w.next(); !ok || e.Type != "DELETED" {
				t.Fatalf("round %d: got %v, want the last event", round, e)
			}
			w.expectEnd()
		}
		for _, path := range []string{widgetsIn, widgetsIn + "/early", widgetsIn + "?watch=true", widgetsPath, "/apis/stable.example.com"} {
			if r := c.get(path); r.code != http.StatusNotFound {
				t.Fatalf("round %d: GET %s without the kind: %d %s", round, path, r.code, r.body)
			}
		}
	}
	// The goroutines of clients come and go. What each round left behind would stay.
	eventually.True(t, fmt.Sprintf("goroutines return to about %d", before), func() bool { return runtime.NumGoroutine() < before+max(4, rounds/2) })
	after := runtime.NumGoroutine()
	load.finish(k)
	if body := string(c.get("/metrics").body); strings.Contains(body, `resource="widgets`) {
		t.Error("metrics still speak of a kind that is gone")
	}
	t.Logf("%d rounds; meanwhile %d writes, %d lists, %d rounds of documents, each of %d watches saw %d events; goroutines %d before, %d after",
		rounds, load.writes.Load(), load.lists.Load(), load.documents.Load(), len(load.watches), len(load.done), before, after)
}

// TestServe_MemoryReturns: what a kind with many objects takes is free again when the kind has gone.
func TestServe_MemoryReturns(t *testing.T) {
	s, c, k := start(t)
	namespace(t, k, "a")
	const objects, size, rounds, most = 300, 20 << 10, 8, 16 << 20
	data := strings.Repeat("x", size)
	cycle := func(fill func()) {
		row := widgetRow()
		if err := s.Serve(t.Context(), nil, []*kinds.Kind{row}); err != nil {
			t.Fatal(err)
		}
		fill()
		w := c.watch(widgetsIn + "?watch=true&resourceVersion=0")
		if l := c.list(widgetsIn); len(l.Items) != objects {
			t.Fatalf("%d objects, want %d", len(l.Items), objects)
		}
		if err := s.Serve(t.Context(), []*kinds.Kind{row}, nil); err != nil {
			t.Fatal(err)
		}
		for {
			e, ok := w.next()
			if !ok {
				break
			}
			if e.Type != "ADDED" {
				t.Fatalf("got %s, want what was there and then the end", e)
			}
		}
	}
	cycle(func() {
		for n := range objects {
			body := fmt.Sprintf(`{"apiVersion":"stable.example.com/v1","kind":"Widget","metadata":{"name":"w%d"},"data":{"a":%q}}`, n, data)
			if r := c.do(http.MethodPost, widgetsIn, body, "Content-Type: application/json"); r.code != http.StatusCreated {
				t.Fatalf("create: %d %s", r.code, r.body)
			}
		}
	})
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var before int64
	eventually.True(t, "the heap has come to rest", func() bool {
		last := before
		before = heap()
		return last > 0 && before > last-1<<20
	})
	for range rounds {
		cycle(func() {})
	}
	var after int64
	// A round that stayed would hold 6 MB of stored objects, and more of their encodings.
	eventually.True(t, "the heap has returned", func() bool { after = heap(); return after-before < most })
	t.Logf("%d rounds with %d MB of objects each: heap %.1f MB before, %.1f MB after", rounds, objects*size>>20, float64(before)/(1<<20), float64(after)/(1<<20))
}

// TestServe_Refused: what cannot be served changes nothing.
func TestServe_Refused(t *testing.T) {
	s, c, _ := start(t)
	twin := widgetRow()
	twin.GVK.Kind, twin.Resource = "Gadget", "gadgets" // stored where widgets are
	taken := widgetRow()
	taken.GVK, taken.Resource = corev1.SchemeGroupVersion.WithKind("ConfigMap"), "configmaps"
	for name, change := range map[string][2][]*kinds.Kind{
		"two rows in one place":    {nil, {widgetRow(), twin}},
		"a resource that is there": {nil, {taken}},
		"a row that is not served": {{widgetRow()}, nil},
		"a row with a view on it":  {{s.Table.ByResource(schema.GroupVersionResource{Version: "v1", Resource: "events"})}, nil},
	} {
		served := s.Kinds()
		if err := s.Serve(t.Context(), change[0], change[1]); err == nil {
			t.Errorf("%s: no error", name)
		}
		if s.Kinds() != served {
			t.Errorf("%s: what is served has changed", name)
		}
	}
	c.list("/api/v1/events")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Serve(ended, nil, []*kinds.Kind{widgetRow()}); err == nil {
		t.Error("no error after the end of the context")
	}
	if r := c.get(widgetsIn); r.code != http.StatusNotFound {
		t.Errorf("GET after a change that failed: %d %s", r.code, r.body)
	}
}

// TestServe_TakesOver: a row that comes for another of the same storage has its cache, and the watches of the other go on.
func TestServe_TakesOver(t *testing.T) {
	s, c, k := start(t)
	namespace(t, k, "a")
	first := widgetRow()
	if err := s.Serve(t.Context(), nil, []*kinds.Kind{first}); err != nil {
		t.Fatal(err)
	}
	w := c.watch(widgetsIn + "?watch=true&resourceVersion=0")
	second := *first
	second.ShortNames = []string{"wd"}
	if err := s.Serve(t.Context(), []*kinds.Kind{first}, []*kinds.Kind{&second}); err != nil {
		t.Fatal(err)
	}
	if r := c.get(widgetsPath); !strings.Contains(string(r.body), `"shortNames":["wd"]`) {
		t.Errorf("discovery says %s", r.body)
	}
	body := `{"apiVersion":"stable.example.com/v1","kind":"Widget","metadata":{"name":"x"}}`
	if r := c.do(http.MethodPost, widgetsIn, body, "Content-Type: application/json"); r.code != http.StatusCreated {
		t.Errorf("create: %d %s", r.code, r.body)
	}
	w.expect("ADDED x")
}

// useOnceShown asks discovery until it shows widgets, and uses them at once, in all ways.
func useOnceShown(ctx context.Context, c *client) error {
	for {
		code, body, err := c.send(ctx, http.MethodGet, widgetsPath, "")
		if err != nil || code == http.StatusOK && !strings.Contains(body, `"widgets"`) {
			return fmt.Errorf("discovery: %d %s %w", code, body, err)
		}
		if code == http.StatusOK {
			break
		}
	}
	const body = `{"apiVersion":"stable.example.com/v1","kind":"Widget","metadata":{"name":"early"},"data":{"a":"b"}}`
	for _, step := range []struct {
		method, path, body, contentType string
		code                            int
	}{
		{http.MethodGet, widgetsIn, "", "", 200},
		{http.MethodGet, widgetsIn + "?watch=true&timeoutSeconds=1&resourceVersion=0&allowWatchBookmarks=true", "", "", 200},
		{http.MethodPost, widgetsIn, body, "application/json", 201},
		{http.MethodGet, widgetsIn + "/early", "", "", 200},
		{http.MethodPatch, widgetsIn + "/early", `{"data":{"c":"d"}}`, "application/merge-patch+json", 200},
		{http.MethodPatch, widgetsIn + "/early?fieldManager=x&force=true", body, "application/apply-patch+yaml", 200},
		{http.MethodGet, "/apis/stable.example.com", "", "", 200},
		{http.MethodGet, "/openapi/v3/apis/stable.example.com/v1", "", "", 200},
	} {
		code, body, err := c.send(ctx, step.method, step.path, step.body, "Content-Type: "+step.contentType)
		if err != nil || code != step.code {
			return fmt.Errorf("%s %s as soon as discovery shows the kind: %d %s %w", step.method, step.path, code, body, err)
		}
	}
	return nil
}

// serveLoad is the clients of other kinds.
type serveLoad struct {
	t        *testing.T
	working  sync.WaitGroup // until stop: writes, lists, documents
	stop     context.CancelFunc
	watching sync.WaitGroup // until the object "last" comes

	writes, lists, documents atomic.Int64

	mu   sync.Mutex
	done map[string]bool // what writers did: "ADDED NAME RV"; a delete without its revision

	watches []*seen
}

// seen is what one watch was told.
type seen struct {
	what   string
	events map[string]bool
	twice  []string
	last   bool // the object "last" has come
}

// note notes an event, and says whether it is the last.
func (s *seen) note(typ, name, rv string) bool {
	event := eventOf(typ, name, rv)
	if s.events[event] {
		s.twice = append(s.twice, event)
	}
	s.events[event] = true
	s.last = name == "last"
	return s.last
}

// eventOf names an event. Writers do not know the revision of a delete.
func eventOf(typ, name, rv string) string {
	if typ == "DELETED" {
		rv = ""
	}
	return typ + " " + name + " " + rv
}

func newServeLoad(t *testing.T, s *apiservertest.Server, k *kubernetes.Clientset) *serveLoad {
	l := &serveLoad{t: t, done: map[string]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	watchCtx, stopWatches := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		l.working.Wait()
		stopWatches()
		l.watching.Wait()
	})
	list, err := k.CoreV1().ConfigMaps("a").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	from := metav1.ListOptions{ResourceVersion: list.ResourceVersion}
	for range 2 {
		typed, err := k.CoreV1().ConfigMaps("a").Watch(watchCtx, from)
		if err != nil {
			t.Fatal(err)
		}
		l.follow("client-go, typed", typed)
		untyped, err := dynamic.NewForConfigOrDie(s.Admin()).Resource(configMaps).Namespace("a").Watch(watchCtx, from)
		if err != nil {
			t.Fatal(err)
		}
		l.follow("client-go, unstructured", untyped)
		l.followRaw(newClient(t, s.Admin()).watch("/api/v1/namespaces/a/configmaps?watch=true&resourceVersion=" + list.ResourceVersion))
	}
	for n := range 3 {
		writer := s.Clientset()
		l.working.Go(func() { l.write(ctx, writer, fmt.Sprint("w", n)) })
	}
	lister := s.Clientset()
	l.working.Go(func() {
		for ctx.Err() == nil {
			_, err := lister.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
			l.check(ctx, "list config maps", err)
			_, err = lister.CoreV1().Namespaces().Get(ctx, "a", metav1.GetOptions{})
			l.check(ctx, "get a namespace", err)
			l.lists.Add(1)
		}
	})
	raw := newClient(t, s.Admin())
	l.working.Go(func() {
		for ctx.Err() == nil {
			for _, path := range []string{"/apis", "/api/v1", "/", "/api/v1/namespaces/a/configmaps?limit=3", "/openapi/v3/apis/apps/v1"} {
				code, body, err := raw.send(ctx, http.MethodGet, path, "")
				if err == nil && code != http.StatusOK {
					err = fmt.Errorf("%d %s", code, body)
				}
				l.check(ctx, "GET "+path, err)
			}
			l.documents.Add(1)
		}
	})
	return l
}

// send is do for other goroutines than the test's.
func (c *client) send(ctx context.Context, method, path, body string, header ...string) (code int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}

func (l *serveLoad) check(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		l.t.Errorf("%s while another kind came or went: %v", what, err)
	}
}

func (l *serveLoad) did(typ string, cm *corev1.ConfigMap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[eventOf(typ, cm.Name, cm.ResourceVersion)] = true
	l.writes.Add(1)
}

// write creates, changes and deletes config maps until ctx ends; it leaves what it has begun in order.
func (l *serveLoad) write(ctx context.Context, k *kubernetes.Clientset, prefix string) {
	all, always := k.CoreV1().ConfigMaps("a"), context.WithoutCancel(ctx)
	for n := 0; ctx.Err() == nil; n++ {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(prefix, "-", n)}}
		cm, err := all.Create(always, cm, metav1.CreateOptions{})
		if err != nil {
			l.t.Errorf("create while another kind came or went: %v", err)
			return
		}
		l.did("ADDED", cm)
		cm.Data = map[string]string{"n": fmt.Sprint(n)}
		if cm, err = all.Update(always, cm, metav1.UpdateOptions{}); err != nil {
			l.t.Errorf("update while another kind came or went: %v", err)
			return
		}
		l.did("MODIFIED", cm)
		if err := all.Delete(always, cm.Name, metav1.DeleteOptions{}); err != nil {
			l.t.Errorf("delete while another kind came or went: %v", err)
			return
		}
		l.did("DELETED", cm)
	}
}

func (l *serveLoad) newSeen(what string) *seen {
	s := &seen{what: what, events: map[string]bool{}}
	l.watches = append(l.watches, s)
	return s
}

func (l *serveLoad) follow(what string, w watch.Interface) {
	s := l.newSeen(what)
	l.watching.Go(func() {
		defer w.Stop()
		for e := range w.ResultChan() {
			obj, err := meta.Accessor(e.Object)
			if err != nil || s.note(string(e.Type), obj.GetName(), obj.GetResourceVersion()) {
				return
			}
		}
	})
}

func (l *serveLoad) followRaw(w *stream) {
	s := l.newSeen("raw")
	l.watching.Go(func() {
		for e, ok := w.next(); ok && !s.note(e.Type, e.Object.Metadata.Name, e.Object.Metadata.ResourceVersion); {
			e, ok = w.next()
		}
	})
}

// finish ends the load and compares what the watches have seen with what has been done.
func (l *serveLoad) finish(k *kubernetes.Clientset) {
	l.t.Helper()
	l.stop()
	l.working.Wait()
	last, err := k.CoreV1().ConfigMaps("a").Create(l.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last"}}, metav1.CreateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	l.did("ADDED", last)
	l.watching.Wait()
	for _, s := range l.watches {
		if !s.last {
			l.t.Errorf("a watch (%s) ended before its time", s.what)
		}
		if len(s.twice) > 0 {
			l.t.Errorf("a watch (%s) saw twice: %q", s.what, s.twice)
		}
		if !maps.Equal(s.events, l.done) {
			l.t.Errorf("a watch (%s) saw %d events, not those %d that happened", s.what, len(s.events), len(l.done))
		}
	}
}
