// Package metrics holds the API server's Prometheus metrics under upstream's names (docs/list-watch.md section 10), and
// resolves their labels once for each resource: counting a request or an event looks nothing up.
//
// Label values come from closed sets: the verbs below, the resources of the table of kinds, HTTP status codes. What a
// client may make up (a path, a method, a name) never becomes one.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const component = "apiserver"

// durations are upstream's buckets for request durations, in seconds.
var durations = []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}

// Metrics are the metrics of one server.
type Metrics struct {
	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	sli         *prometheus.HistogramVec
	longRunning *prometheus.GaugeVec
	watchEvents *prometheus.CounterVec
	watchSizes  *prometheus.HistogramVec
	watchList   *prometheus.HistogramVec
	listTime    *prometheus.HistogramVec
	listTotal   *prometheus.CounterVec
	returned    *prometheus.CounterVec
	dropped     *prometheus.CounterVec
	aborted     *prometheus.CounterVec

	// ReadInflight and MutatingInflight count requests under way that the limits apply to.
	ReadInflight, MutatingInflight prometheus.Gauge
	identities                     *prometheus.CounterVec

	mu sync.RWMutex // held for reading to make series of a resource, for writing to drop them
}

// New makes the metrics and registers them.
func New(reg prometheus.Registerer) *Metrics {
	request := []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	resource := []string{"group", "resource"}
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_request_total",
			Help: "Requests answered, by what they asked for and the status code."},
			append([]string{"code", "dry_run"}, request...)),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_request_duration_seconds",
			Help: "Time from a request's arrival to the end of its answer, watches and other long-running requests left out.", Buckets: durations},
			append([]string{"dry_run"}, request...)),
		sli: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_request_sli_duration_seconds",
			Help: "As apiserver_request_duration_seconds, without time spent in webhooks.", Buckets: durations},
			request),
		longRunning: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_longrunning_requests",
			Help: "Watches and other long-running requests under way."}, request),
		watchEvents: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_watch_events_total",
			Help: "Events sent in watches."}, []string{"group", "version", "resource"}),
		watchSizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_watch_events_sizes",
			Help: "Size in bytes of events sent in watches.", Buckets: prometheus.ExponentialBuckets(1024, 2, 8)},
			[]string{"group", "version", "resource"}),
		watchList: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_watch_list_duration_seconds",
			Help: "Time from the start of a watch with initial events to the end of these.", Buckets: durations},
			[]string{"group", "version", "resource", "scope"}),
		listTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_watch_cache_list_duration_seconds",
			Help: "Time to answer a list from the watch cache, writing included.", Buckets: durations},
			resource),
		listTotal: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_cache_list_total",
			Help: "Lists answered from the watch cache."}, resource),
		returned: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_cache_list_returned_objects_total",
			Help: "Objects in lists answered from the watch cache."}, resource),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_dropped_requests_total",
			Help: "Requests refused with 429 because too many were under way."}, []string{"request_kind"}),
		aborted: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_request_aborts_total",
			Help: "Requests that ended with a panic."}, request),
		identities: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_requests_by_identity_total",
			Help: "Requests by the kind of identity their connection has."}, []string{"identity"}),
	}
	inflight := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_current_inflight_requests",
		Help: "Requests under way, watches and other long-running requests left out."}, []string{"request_kind"})
	m.ReadInflight = inflight.WithLabelValues("readOnly")
	m.MutatingInflight = inflight.WithLabelValues("mutating")
	reg.MustRegister(m.requests, m.duration, m.sli, m.longRunning, m.watchEvents, m.watchSizes, m.watchList, m.listTime,
		m.listTotal, m.returned, m.dropped, m.aborted, m.identities, inflight)
	return m
}

// RegisterCompressed shows the bytes that are kept to serve compressed lists.
func RegisterCompressed(reg prometheus.Registerer, sizeBytes func() int) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "apiserver_compressed_list_bytes",
		Help: "Memory held by compressed forms of objects, from which compressed lists are put together."},
		func() float64 { return float64(sizeBytes()) }))
}

// Dropped counts a request refused by the limits.
func (m *Metrics) Dropped(mutating bool) {
	if mutating {
		m.dropped.WithLabelValues("mutating").Inc()
	} else {
		m.dropped.WithLabelValues("readOnly").Inc()
	}
}

// Identity returns the counter of one kind of identity. kind must be one of a fixed set: admin, component, node,
// user, anonymous.
func (m *Metrics) Identity(kind string) prometheus.Counter { return m.identities.WithLabelValues(kind) }
