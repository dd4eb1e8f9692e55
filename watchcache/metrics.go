package watchcache

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// serverMetrics are the metrics of all caches; those of one resource are made by of. Names and labels are
// kube-apiserver's, but for apiserver_watch_fanout_total and apiserver_watch_cache_broken_objects_total, which it does
// not have.
type serverMetrics struct {
	reg prometheus.Registerer // may be nil

	loads, received, dispatched, initEvents, fanout, terminated, broken, consistent *prometheus.CounterVec
	capacity                                                                        *prometheus.GaugeVec
	readWait                                                                        *prometheus.HistogramVec
}

// cacheMetrics are the metrics of one resource.
type cacheMetrics struct {
	loads, received, dispatched, initEvents, fanout, terminated, broken prometheus.Counter
	capacity                                                            prometheus.Gauge
	readWait                                                            prometheus.Observer         // seconds
	consistent                                                          map[bool]prometheus.Counter // by success
}

// newMetrics makes the metrics and registers them, unless reg is nil. Two servers may share a registerer: they count
// into the same metrics then.
func newMetrics(reg prometheus.Registerer) *serverMetrics {
	byResource := []string{"group", "resource"}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(byResource, more...)))
	}
	return &serverMetrics{
		reg:        reg,
		loads:      counter("apiserver_watch_cache_initializations_total", "Times the cache was loaded from the store."),
		received:   counter("apiserver_watch_cache_events_received_total", "Changes received from the store."),
		dispatched: counter("apiserver_watch_cache_events_dispatched_total", "Events appended to the log."),
		initEvents: counter("apiserver_init_events_total", "Initial events handed to watchers."),
		fanout:     counter("apiserver_watch_fanout_total", "Events handed to watchers after the initial ones."),
		terminated: counter("apiserver_terminated_watchers_total", "Watchers that fell out of the window."),
		broken:     counter("apiserver_watch_cache_broken_objects_total", "Stored values that could not be read."),
		consistent: counter("apiserver_watch_cache_consistent_read_total", "Consistent reads from the cache.", "success", "fallback"),
		capacity: register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "watch_cache_capacity", Help: "Largest number of events in the window."}, byResource)),
		readWait: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_watch_cache_read_wait_seconds", Help: "Time that a read waited for the cache to be fresh enough.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 3}}, byResource)),
	}
}

func (m *serverMetrics) of(c *Cache) cacheMetrics {
	group, resource := c.res.split()
	register(m.reg, prometheus.Collector(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "apiserver_watch_cache_resource_version",
		Help:        "Revision up to which the cache is complete.",
		ConstLabels: prometheus.Labels{"group": group, "resource": resource},
	}, func() float64 { return float64(c.Snapshot().Revision()) })))
	return cacheMetrics{
		loads:      m.loads.WithLabelValues(group, resource),
		received:   m.received.WithLabelValues(group, resource),
		dispatched: m.dispatched.WithLabelValues(group, resource),
		initEvents: m.initEvents.WithLabelValues(group, resource),
		fanout:     m.fanout.WithLabelValues(group, resource),
		terminated: m.terminated.WithLabelValues(group, resource),
		broken:     m.broken.WithLabelValues(group, resource),
		capacity:   m.capacity.WithLabelValues(group, resource),
		readWait:   m.readWait.WithLabelValues(group, resource),
		consistent: map[bool]prometheus.Counter{
			true:  m.consistent.WithLabelValues(group, resource, "true", "false"),
			false: m.consistent.WithLabelValues(group, resource, "false", "false"),
		},
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
