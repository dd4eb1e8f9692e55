package informer

import (
	"github.com/prometheus/client_golang/prometheus"

	"vigil/informer/internal/wire"
)

// metrics are the counters of all informers of one factory.
type metrics struct {
	lists, watches, syncs *prometheus.CounterVec
	events                *prometheus.CounterVec
}

// newMetrics makes the metrics and registers them. Without a registerer there are none: a process may have thousands of factories.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, nil
	}
	m := &metrics{
		lists: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "informer_list_requests_total", Help: "Pages of lists asked for.",
		}, []string{"group", "resource"}),
		watches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "informer_watch_requests_total", Help: "Watches asked for, streaming lists included.",
		}, []string{"group", "resource"}),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "informer_syncs_total", Help: "Complete states taken in: one at the start, one more for each relist.",
		}, []string{"group", "resource"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "informer_events_total", Help: "Watch events received, initial events excluded.",
		}, []string{"group", "resource", "type"}),
	}
	for _, c := range []prometheus.Collector{m.lists, m.watches, m.syncs, m.events} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// resourceMetrics are the counters of one informer. Its methods may be called on nil.
type resourceMetrics struct {
	lists, watches, syncs prometheus.Counter
	events                [wire.Error + 1]prometheus.Counter
}

func (m *metrics) of(res Resource) *resourceMetrics {
	if m == nil {
		return nil
	}
	r := &resourceMetrics{
		lists:   m.lists.WithLabelValues(res.Group, res.Plural),
		watches: m.watches.WithLabelValues(res.Group, res.Plural),
		syncs:   m.syncs.WithLabelValues(res.Group, res.Plural),
	}
	for t, name := range [...]string{"UNKNOWN", "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"} {
		r.events[t] = m.events.WithLabelValues(res.Group, res.Plural, name)
	}
	return r
}

func (r *resourceMetrics) list() {
	if r != nil {
		r.lists.Inc()
	}
}

func (r *resourceMetrics) watch() {
	if r != nil {
		r.watches.Inc()
	}
}

func (r *resourceMetrics) sync() {
	if r != nil {
		r.syncs.Inc()
	}
}

func (r *resourceMetrics) event(t wire.Type) {
	if r != nil {
		r.events[t].Inc()
	}
}
