package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"vigil/store"
	"vigil/store/storetest"
)

func TestOpen_Errors(t *testing.T) {
	e := storetest.NewEmbedded(t, store.EmbeddedConfig{})
	for want, cfg := range map[string]store.Config{
		"neither an embedded etcd nor endpoints": {},
		"both an embedded etcd and endpoints":    {Embedded: e, Endpoints: []string{"https://127.0.0.1:1"}},
		"read certificates":                      {Endpoints: []string{"https://127.0.0.1:1"}, CAFile: "none.crt", CertFile: "none.crt", KeyFile: "none.key"},
		`"127.0.0.1:2379" is not https://`:       {Endpoints: []string{"127.0.0.1:2379"}},
		`"ftp://127.0.0.1" is not https://`:      {Endpoints: []string{"ftp://127.0.0.1"}},
		"mix http and https":                     {Endpoints: []string{"https://127.0.0.1:1", "http://127.0.0.1:2"}},
	} {
		s, err := store.Open(t.Context(), cfg)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestOpen_Prefix(t *testing.T) {
	e := storetest.NewEmbedded(t, store.EmbeddedConfig{})
	s := storetest.Open(t, store.Config{Embedded: e, Prefix: "/other"})
	if got := s.Prefix(); got != "/other/" {
		t.Errorf("prefix %q, want /other/", got)
	}
	feed := storetest.Record(t.Context(), t, s, 1)
	for _, key := range []string{"/registry/pods/a", "/otherwise", "/other/pods/a"} {
		if _, err := s.Create(t.Context(), key, []byte("v"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if events := feed.WaitFor(t, 4); len(events) != 1 || events[0].Key != "/other/pods/a" {
		t.Errorf("feed has %v, want /other/pods/a", events)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	e := storetest.NewEmbedded(t, store.EmbeddedConfig{})
	s := storetest.Open(t, store.Config{Embedded: e, Registerer: registry})
	feed := storetest.Record(t.Context(), t, s, 1)
	rev, err := s.Create(t.Context(), "/registry/services/specs/default/a", []byte("v"), 0)
	if err != nil {
		t.Fatal(err)
	}
	feed.WaitFor(t, rev)
	s.Create(t.Context(), "/registry/services/specs/default/a", []byte("v"), 0)         // exists: no error
	s.Create(t.Context(), "/registry/services/specs/default/a", make([]byte, 2<<20), 0) // too large: one
	s.List(t.Context(), "/registry/example.com/widgets/", store.ListOptions{Limit: 1})
	s.Update(t.Context(), "/registry/pods/default/a", []byte("v"), rev, 15*time.Second) // conflict: none
	for name, want := range map[string]float64{
		"etcd_requests_total create services/specs":           3,
		"etcd_request_errors_total create services/specs":     1,
		"etcd_request_duration_seconds create services/specs": 3,
		"etcd_requests_total list example.com/widgets":        1,
		"etcd_requests_total update pods":                     1,
		"etcd_request_errors_total update pods":               0,
		"vigil_store_feed_events_total":                       1,
	} {
		if got := metric(t, registry, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if _, err := store.Open(t.Context(), store.Config{Embedded: e, Registerer: registry}); err == nil {
		t.Error("no error for metrics registered twice")
	}
}

// metric is the value, or a histogram's count, of "name label-value...".
func metric(t *testing.T, g prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			full := f.GetName()
			for _, l := range m.Label {
				full += " " + l.GetValue()
			}
			if full != name {
				continue
			}
			if f.GetType() == dto.MetricType_HISTOGRAM {
				return float64(m.Histogram.GetSampleCount())
			}
			return m.Counter.GetValue()
		}
	}
	t.Errorf("no metric %s", name)
	return -1
}

func key(n int) string { return fmt.Sprintf("/registry/secrets/%06d", n) }
