package watchcache

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// serverMetrics are the metrics of all caches; those of one resource are made by of.
type serverMetrics struct {
	revision prometheus.Gauge
	loads    prometheus.Counter
	readWait prometheus.Histogram

	received, dispatched, initEvents, fanout, terminated, broken *prometheus.CounterVec
	capacity                                                     *prometheus.GaugeVec
}

// cacheMetrics are the metrics of one resource. Their labels are group and resource.
type cacheMetrics struct {
	received, dispatched, initEvents, fanout, terminated, broken prometheus.Counter
	capacity                                                     prometheus.Gauge
}

// newMetrics makes the metrics and registers them, unless reg is nil. Two servers may share a registerer: they count
// into the same metrics then.
func newMetrics(reg prometheus.Registerer) *serverMetrics {
	byResource := []string{"group", "resource"}
	counter := func(name, help string) *prometheus.CounterVec {
		return register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, byResource))
	}
	return &serverMetrics{
		revision: register(reg, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "apiserver_watch_cache_resource_version", Help: "Revision up to which all watch caches are complete."})),
		loads: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_watch_cache_initializations_total", Help: "Times the watch caches were loaded from the store."})),
		readWait: register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "apiserver_watch_cache_read_wait_seconds", Help: "Time that reads waited for the feed.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 3}})),
		received:   counter("apiserver_watch_cache_events_received_total", "Changes received from the store."),
		dispatched: counter("apiserver_watch_cache_events_dispatched_total", "Events appended to the log."),
		initEvents: counter("apiserver_init_events_total", "Initial events handed to watchers."),
		fanout:     counter("apiserver_watch_fanout_total", "Events handed to watchers after the initial ones."),
		terminated: counter("apiserver_terminated_watchers_total", "Watchers that fell out of the window."),
		broken:     counter("apiserver_watch_cache_broken_objects_total", "Stored values that could not be read."),
		capacity: register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "watch_cache_capacity", Help: "Largest number of events in the window."}, byResource)),
	}
}

func (m *serverMetrics) of(r Resource) cacheMetrics {
	group, resource := r.split()
	return cacheMetrics{
		received:   m.received.WithLabelValues(group, resource),
		dispatched: m.dispatched.WithLabelValues(group, resource),
		initEvents: m.initEvents.WithLabelValues(group, resource),
		fanout:     m.fanout.WithLabelValues(group, resource),
		terminated: m.terminated.WithLabelValues(group, resource),
		broken:     m.broken.WithLabelValues(group, resource),
		capacity:   m.capacity.WithLabelValues(group, resource),
	}
}

// register returns c, or the equal collector that is registered already.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	var there prometheus.AlreadyRegisteredError
	if err := reg.Register(c); errors.As(err, &there) {
		if same, ok := there.ExistingCollector.(C); ok {
			return same
		}
	}
	return c
}
