package scheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"vigil/scheduler/queue"
)

// metrics have upstream's names (kubernetes/pkg/scheduler/metrics).
type metrics struct {
	attempts *prometheus.HistogramVec
	latency  prometheus.Histogram
	errors   prometheus.Counter
}

func newMetrics(registry prometheus.Registerer, q *queue.Queue) *metrics {
	m := &metrics{
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "scheduler_scheduling_attempt_duration_seconds",
			Help:    "Duration of a scheduling cycle without its binding, by result.",
			Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10),
		}, []string{"result"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "scheduler_pod_scheduling_sli_duration_seconds",
			Help:    "Time from a pod's coming into the queue until it is bound.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scheduler_binding_errors_total",
			Help: "Bindings that the API server refused.",
		}),
	}
	if registry == nil {
		return m
	}
	registry.MustRegister(m.attempts, m.latency, m.errors)
	for i, name := range []string{"active", "backoff", "unschedulable"} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "scheduler_pending_pods",
			Help:        "Pods in the queue, by where they wait.",
			ConstLabels: prometheus.Labels{"queue": name},
		}, func() float64 {
			a, b, c := q.Depths()
			return float64([]int{a, b, c}[i])
		}))
	}
	return m
}

func (m *metrics) cycle(result string, began time.Time) {
	m.attempts.WithLabelValues(result).Observe(time.Since(began).Seconds())
}

func (m *metrics) bound(e *queue.Entry) { m.latency.Observe(time.Since(e.Since).Seconds()) }

func (m *metrics) failed() { m.errors.Inc() }
