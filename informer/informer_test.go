package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"vigil/informer/internal/fakeapi"
	"vigil/internal/eventually"
)

func TestInformer_TellsInitialStateThenChanges(t *testing.T) {
	s := fakeapi.New(t)
	v1 := s.Put(pod("a", "one"))
	f := newTestFactory(t, s)
	rec := &recorder{}
	reg := f.Informer(podResource).AddHandler(rec.handler())
	start(t, f)
	if !reg.HasSynced() {
		t.Error("WaitForSync returned before the handler was told everything")
	}
	v2 := s.Put(pod("a", "one"))
	rec.wait(t, 2)
	v3 := s.Put(pod("b", "two"))
	rec.wait(t, 3)
	v4 := s.Delete("a", "one")
	got := rec.wait(t, 4)
	want := []string{
		"initial a/one@" + v1,
		"update a/one@" + v1 + ">" + v2,
		"add b/two@" + v3,
		"delete a/one@" + v4,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the handler was told (-want +got):\n%s", diff)
	}
	if r := s.Requests(); r != (fakeapi.Requests{StreamingLists: 1}) {
		t.Errorf("requests: %+v, want one streaming list", r)
	}
}

func TestInformer_LateHandlerIsToldWhatIsThere(t *testing.T) {
	s := fakeapi.New(t)
	f := newTestFactory(t, s)
	i := f.Informer(podResource)
	start(t, f)
	version := s.Put(pod("a", "one"))
	caughtUp(t, i, version)

	rec := &recorder{}
	reg := i.AddHandler(rec.handler())
	<-reg.Synced()
	if diff := cmp.Diff([]string{"initial a/one@" + version}, rec.told()); diff != "" {
		t.Errorf("what the late handler was told (-want +got):\n%s", diff)
	}
	reg.Remove()
	caughtUp(t, i, s.Put(pod("a", "two")))
	if n := len(rec.told()); n != 1 {
		t.Errorf("a removed handler was told %d things, want 1", n)
	}
}

func TestInformer_FiftyHandlersShareOneListAndWatch(t *testing.T) {
	s := fakeapi.New(t)
	for n := range 10 {
		s.Put(pod("a", fmt.Sprint("pod-", n)))
	}
	f := newTestFactory(t, s)
	var recs []*recorder
	for range 50 {
		r := &recorder{}
		f.Informer(ResourceOf[*corev1.Pod]()).AddHandler(r.handler()) // as 50 controllers would
		recs = append(recs, r)
	}
	start(t, f)
	s.Put(pod("a", "pod-3"))
	for n, r := range recs {
		if got := r.wait(t, 11); len(got) != 11 {
			t.Errorf("handler %d was told %d things, want 11", n, len(got))
		}
	}
	if r := s.Requests(); r != (fakeapi.Requests{StreamingLists: 1}) {
		t.Errorf("requests: %+v, want one streaming list", r)
	}
	if f.Informer(podResource) == f.Informer(Resource{Version: "v1", Plural: "pods", Type: podResource.Type, Namespace: "a"}) {
		t.Error("informers of different selections are the same")
	}
}

func TestInformer_SlowHandlerDelaysNobodyAndIsToldTheSum(t *testing.T) {
	s := fakeapi.New(t)
	first := s.Put(pod("a", "one"))
	f := newTestFactory(t, s)
	i := f.Informer(podResource)

	slow, quick := &recorder{}, &recorder{}
	entered, release := make(chan struct{}), make(chan struct{})
	h := slow.handler()
	add := h.OnAdd
	h.OnAdd = func(o *Object, initial bool) {
		if initial {
			close(entered)
			<-release
		}
		add(o, initial)
	}
	reg := i.AddHandler(h)
	i.AddHandler(quick.handler())
	run(t, f)
	<-entered // the slow handler is busy with the first object from here on

	var last string
	for range 5 {
		last = s.Put(pod("a", "one"))
	}
	born := s.Put(pod("a", "short-lived"))
	died := s.Delete("a", "short-lived")
	quick.wait(t, 2)
	caughtUp(t, i, died)
	eventually.True(t, "the quick handler has been told the last state", func() bool {
		told := quick.told()
		return slices.Contains(told, "delete a/short-lived@"+died)
	})
	if n := reg.Waiting(); n != 2 {
		t.Errorf("%d objects wait for the slow handler, want 2", n)
	}
	close(release)
	want := []string{
		"initial a/one@" + first,
		"update a/one@" + first + ">" + last, // five updates, one call
		"add a/short-lived@" + died,          // births and deaths do not vanish
		"delete a/short-lived@" + died,
	}
	if diff := cmp.Diff(want, slow.wait(t, 4)); diff != "" {
		t.Errorf("what the slow handler was told, pod born at %s (-want +got):\n%s", born, diff)
	}
	if got := reg.Merged(); got != 5 {
		t.Errorf("%d changes were merged, want 5 (four updates and a deletion)", got)
	}
}

func TestInformer_Resync(t *testing.T) {
	s := fakeapi.New(t)
	v := s.Put(pod("a", "one"))
	f := newTestFactory(t, s)
	rec := &recorder{}
	f.Informer(podResource).AddHandlerWithResync(rec.handler(), 5*time.Millisecond)
	start(t, f)
	for n, call := range rec.wait(t, 4)[1:] {
		if want := "update a/one@" + v + ">" + v; call != want {
			t.Errorf("call %d is %q, want %q", n+1, call, want)
		}
	}
}

func TestInformer_Selections(t *testing.T) {
	s := fakeapi.New(t)
	other := pod("b", "other")
	other.Spec.NodeName, other.Labels = "node-2", nil
	s.Put(pod("a", "one"))
	s.Put(other)
	f := newTestFactory(t, s)
	for name, tc := range map[string]struct {
		change func(*Resource)
		want   []string
	}{
		"all":       {func(*Resource) {}, []string{"a/one", "b/other"}},
		"field":     {func(r *Resource) { r.FieldSelector = "spec.nodeName=node-2" }, []string{"b/other"}},
		"label":     {func(r *Resource) { r.LabelSelector = "app=web" }, []string{"a/one"}},
		"namespace": {func(r *Resource) { r.Namespace = "b" }, []string{"b/other"}},
	} {
		res := podResource
		tc.change(&res)
		i := f.Informer(res)
		defer func() {
			var got []string
			for _, o := range i.Indexer().List("") {
				got = append(got, o.Key())
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}()
	}
	start(t, f)
}

func TestInformer_StartedWhileFactoryRuns(t *testing.T) {
	s := fakeapi.New(t)
	s.Put(pod("a", "one"))
	f := newTestFactory(t, s)
	start(t, f)
	i := f.Informer(podResource)
	if err := i.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := i.Indexer().Len(); n != 1 {
		t.Errorf("%d objects, want 1", n)
	}
	if err := f.Run(t.Context()); !errors.Is(err, errRan) {
		t.Errorf("second Run: %v, want errRan", err)
	}
}

func TestFactory_WaitForSyncSaysWhatIsMissing(t *testing.T) {
	s := fakeapi.New(t)
	f := newTestFactory(t, s)
	f.Informer(podResource)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.WaitForSync(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitForSync without Run: %v, want context.Canceled", err)
	}
}

func TestFactory_Metrics(t *testing.T) {
	s := fakeapi.New(t)
	s.Put(pod("a", "one"))
	s.Put(pod("b", "two"))
	reg := prometheus.NewPedanticRegistry()
	f, err := NewFactory(s.Config(), Config{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	f.timing = fast()
	i := f.Informer(podResource)
	inB := podResource
	inB.Namespace = "b"
	f.Informer(inB)
	h := i.AddHandler(EventHandler{})
	start(t, f)
	caughtUp(t, i, s.Put(pod("a", "one")))
	eventually.True(t, "the handler has been told", func() bool { return h.Waiting() == 0 })

	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			name := family.GetName()
			for _, l := range m.Label {
				if l.GetName() == "type" {
					name += " " + l.GetValue()
				}
			}
			got[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"informer_objects": 3, "informer_syncs_total": 2, "informer_watch_requests_total": 2, "informer_list_requests_total": 0,
		"informer_events_total MODIFIED": 1, "informer_events_total DELETED": 0, "informer_handlers_waiting": 0,
	} {
		if have, ok := got[name]; !ok || have != want {
			t.Errorf("%s is %v, want %v", name, have, want)
		}
	}
	if got["informer_object_bytes"] < 100 {
		t.Errorf("informer_object_bytes is %v", got["informer_object_bytes"])
	}
	if _, err := NewFactory(s.Config(), Config{Registerer: reg}); err == nil {
		t.Error("a second factory registers the same metrics")
	}
}

func TestLister_ReturnsCopies(t *testing.T) {
	s := fakeapi.New(t)
	s.Put(pod("a", "one"))
	s.Put(pod("b", "two"))
	f := newTestFactory(t, s)
	l := ListerFor[*corev1.Pod](f.Informer(podResource))
	l.Informer().AddIndex("node", ByField(func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} }, 2, 10))
	start(t, f)

	p, err := l.Get("a", "one")
	if err != nil {
		t.Fatal(err)
	}
	if p.Kind != "Pod" || p.APIVersion != "v1" || p.Spec.Containers[0].Image != "image" || p.ResourceVersion == "" || p.UID == "" {
		t.Errorf("decoded pod is not whole: %+v", p)
	}
	p.Labels["app"] = "spoilt"
	again, err := l.Get("a", "one")
	if err != nil || again.Labels["app"] != "web" {
		t.Errorf("changing a copy changed the cache: %v, %v", again.Labels, err)
	}
	if _, err := l.Get("a", "none"); !apierrors.IsNotFound(err) {
		t.Errorf("Get of nothing: %v, want NotFound", err)
	}
	for selector, want := range map[string]int{"": 2, "app=web": 2, "app!=web": 0, "app in (x,web),!y": 2, "y": 0} {
		sel, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := l.List("", sel); err != nil || len(got) != want {
			t.Errorf("List(%q): %d objects, %v; want %d", selector, len(got), err, want)
		}
	}
	if got, err := l.List("b", nil); err != nil || len(got) != 1 || got[0].Name != "two" {
		t.Errorf("List in b: %v, %v", got, err)
	}
	if got, err := l.ByIndex("node", "node-1"); err != nil || len(got) != 2 {
		t.Errorf("ByIndex: %v, %v", got, err)
	}
	if _, err := l.ByIndex("nothing", ""); err == nil {
		t.Error("ByIndex of an unknown index succeeds")
	}
}
