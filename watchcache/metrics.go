package watchcache

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// serverMetrics are the metrics of all caches; those of one resource are made by of. Names and labels are
// kube-apiserver's, but for apiserver_watch_fanout_total and apiserver_watch_cache_broken_objects_total, which it does
// not have.
type serverMetrics struct {
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

// forget drops the series of a resource.
func (m *serverMetrics) forget(r Resource) {
	group, resource := r.split()
	labels := prometheus.Labels{"group": group, "resource": resource}
	for _, vec := range []*prometheus.CounterVec{m.loads, m.received, m.dispatched, m.initEvents, m.fanout, m.terminated, m.broken, m.consistent} {
		vec.DeletePartialMatch(labels)
	}
	m.capacity.DeletePartialMatch(labels)
	m.readWait.DeletePartialMatch(labels)
}

// revisions shows how far each cache of a server is.
type revisions struct{ server *Server }

var revisionDesc = prometheus.NewDesc("apiserver_watch_cache_resource_version", "Revision up to which the cache is complete.",
	[]string{"group", "resource"}, nil)

// Describe is a prometheus.Collector's.
func (revisions) Describe(ch chan<- *prometheus.Desc) { ch <- revisionDesc }

// Collect is a prometheus.Collector's.
func (r revisions) Collect(ch chan<- prometheus.Metric) {
	r.server.mu.Lock()
	newest := map[string]*Cache{} // two caches may hold the same resource
	for _, c := range r.server.caches {
		newest[c.res.Name] = c
	}
	r.server.mu.Unlock()
	for _, c := range newest {
		group, resource := c.res.split()
		ch <- prometheus.MustNewConstMetric(revisionDesc, prometheus.GaugeValue, float64(c.Snapshot().Revision()), group, resource)
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
