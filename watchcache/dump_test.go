package watchcache

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestServer_Dump(t *testing.T) {
	r := newRig(t)
	r.put(pod{"a/one", "n1", ""}, pod{"b/two", "n2", ""})
	all := r.watch(WatchOptions{After: r.rev})
	all.Notify(func() {})
	r.watch(WatchOptions{After: r.rev, Selection: Selection{Namespace: "a"}})
	r.watch(WatchOptions{After: r.rev, Selection: Selection{Fields: mustFields(t, "spec.nodeName=n1")}})
	r.server.Add(Resource{Name: "late.example.com", Prefix: "/registry/example.com/late/", Type: podType})
	for query, want := range map[string][]string{
		"":                   {"revision 102, ready true", "pods", "late.example.com", "not loaded"},
		"?resource=pods":     {"all", "namespace=a", "spec.nodeName=n1"},
		"?resource=nonsense": {"RESOURCE"},
		"?check":             {"pods: sound, 2 objects", "late.example.com: sound, 0 objects"},
	} {
		w := httptest.NewRecorder()
		r.server.ServeHTTP(w, httptest.NewRequest("GET", "/debug/watchcache"+query, nil))
		for _, part := range want {
			if !strings.Contains(w.Body.String(), part) {
				t.Errorf("dump %q has no %q:\n%s", query, part, w.Body)
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := newRig(t, func(c *Config, _ *tuning) { c.Registerer = reg; c.Window.MaxEvents = 10 })
	newServer(noStore{}, Config{Registerer: reg}, defaultTuning) // a second one counts into the same
	r.put(pod{"a/one", "", ""})
	initial := r.watch(WatchOptions{Initial: r.pods.Snapshot()})
	drain(t, initial)
	slow := r.watch(WatchOptions{After: r.rev})
	r.put(pod{"a/two", "", ""})
	r.raw("/registry/pods/a/three", []byte("rubbish"))
	drain(t, initial)
	initial.Close()
	r.fill(50)
	r.server.sweep()
	if _, err := r.pods.Read(t.Context(), Consistent()); err == nil {
		t.Error("a consistent read without a store")
	}
	if _, err := drainErr(t, slow); err == nil {
		t.Error("a slow cursor did not expire")
	}
	for name, want := range map[string]float64{
		"apiserver_watch_cache_events_received_total":   53,
		"apiserver_watch_cache_events_dispatched_total": 52,
		"apiserver_watch_cache_broken_objects_total":    1,
		"apiserver_init_events_total":                   1,
		"apiserver_watch_fanout_total":                  1,
		"apiserver_terminated_watchers_total":           1,
		"watch_cache_capacity":                          10,
		"apiserver_watch_cache_resource_version":        float64(r.rev),
		"apiserver_watch_cache_initializations_total":   1,
		"apiserver_watch_cache_consistent_read_total":   1,
	} {
		if got := value(t, reg, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// value is the sum of a metric over its labels.
func value(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum, found := 0.0, false
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			found = true
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	if !found {
		t.Errorf("there is no metric %s", name)
	}
	return sum
}
