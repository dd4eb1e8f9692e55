package store

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts requests under kube-apiserver's names, by operation and by type: the resource's part of the key, as
// in pods, services/specs, example.com/widgets. A nil *metrics counts nothing.
type metrics struct {
	prefix   string
	duration *prometheus.HistogramVec
	requests *prometheus.CounterVec
	errors   *prometheus.CounterVec
	events   prometheus.Counter
	broken   prometheus.Counter

	byLabel sync.Map // requestLabels to *requestMetrics: WithLabelValues is too slow for each request
}

type requestLabels struct{ operation, kind string }

type requestMetrics struct {
	duration         prometheus.Observer
	requests, errors prometheus.Counter
}

// newMetrics registers the metrics; full says whether etcd refuses writes for lack of space.
func newMetrics(r prometheus.Registerer, prefix string, full func() bool) (*metrics, error) {
	if r == nil {
		return nil, nil
	}
	labels := []string{"operation", "type"}
	m := &metrics{
		prefix: prefix,
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "etcd_request_duration_seconds",
			Help:    "Time of etcd requests, from the API server's side.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 30, 60},
		}, labels),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_requests_total",
			Help: "Etcd requests.",
		}, labels),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_request_errors_total",
			Help: "Etcd requests that failed, other than by a missing key or a lost compare.",
		}, labels),
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vigil_store_feed_events_total",
			Help: "Changes delivered by the feed.",
		}),
		broken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vigil_store_feed_broken_total",
			Help: "Times the feed lost its connection to etcd and resumed.",
		}),
	}
	noSpace := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "vigil_store_full",
		Help: "1 while etcd refuses writes for lack of space, on its disk or in its quota.",
	}, func() float64 {
		if full() {
			return 1
		}
		return 0
	})
	for _, c := range []prometheus.Collector{m.duration, m.requests, m.errors, m.events, m.broken, noSpace} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe is for defer: err is looked at when the operation is over.
func (m *metrics) observe(operation, key string, start time.Time, err *error) {
	if m == nil {
		return
	}
	of := m.of(operation, resourceOf(strings.TrimPrefix(key, m.prefix)))
	of.duration.Observe(time.Since(start).Seconds())
	of.requests.Inc()
	if *err != nil && !errors.Is(*err, ErrNotFound) && !errors.Is(*err, ErrExists) && !errors.Is(*err, ErrConflict) {
		of.errors.Inc()
	}
}

func (m *metrics) of(operation, kind string) *requestMetrics {
	labels := requestLabels{operation, kind}
	if of, ok := m.byLabel.Load(labels); ok {
		return of.(*requestMetrics)
	}
	labels.kind = strings.Clone(kind)
	of, _ := m.byLabel.LoadOrStore(labels, &requestMetrics{
		duration: m.duration.WithLabelValues(operation, kind),
		requests: m.requests.WithLabelValues(operation, kind),
		errors:   m.errors.WithLabelValues(operation, kind),
	})
	return of.(*requestMetrics)
}

func (m *metrics) fed(events int) {
	if m != nil {
		m.events.Add(float64(events))
	}
}

func (m *metrics) feedBroken() {
	if m != nil {
		m.broken.Inc()
	}
}

// resourceOf is the resource's part of a key without its prefix: one path segment, or two where the first is a group
// (it has a dot) or is shared by two resources.
func resourceOf(key string) string {
	first, rest, ok := strings.Cut(key, "/")
	if !ok || first != "services" && !strings.Contains(first, ".") {
		return first
	}
	second, _, _ := strings.Cut(rest, "/")
	return key[:len(first)+1+len(second)]
}
