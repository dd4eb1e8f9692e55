package workqueue

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// Metrics are shared by all queues of a process. The queue's own have client-go's names, those of the loop
// controller-runtime's.
type Metrics struct {
	provider *provider
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	panics   *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		provider: newProvider(),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_reconcile_total", Help: "Reconciliations by result: success, requeue_after, error, terminal_error.",
		}, []string{"controller", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_reconcile_time_seconds", Help: "How long one reconciliation took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"controller"}),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_reconcile_panics_total", Help: "Reconciliations that panicked; they are tried again.",
		}, []string{"controller"}),
	}
	for _, c := range append(m.provider.collectors(), m.total, m.duration, m.panics) {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// reconciled counts one reconciliation. It may be called on nil.
func (m *Metrics) reconciled(controller string, took, after time.Duration, err error) {
	if m == nil {
		return
	}
	result := "success"
	var terminal *terminalError
	switch {
	case errors.As(err, &terminal):
		result = "terminal_error"
	case err != nil:
		result = "error"
	case after > 0:
		result = "requeue_after"
	}
	m.total.WithLabelValues(controller, result).Inc()
	m.duration.WithLabelValues(controller).Observe(took.Seconds())
}

// panicked counts a reconciliation that panicked. It may be called on nil.
func (m *Metrics) panicked(controller string) {
	if m != nil {
		m.panics.WithLabelValues(controller).Inc()
	}
}

// provider is a workqueue.MetricsProvider with upstream's metrics.
type provider struct {
	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	latency, duration          *prometheus.HistogramVec
}

func newProvider() *provider {
	name := []string{"name"}
	gauge := func(metric, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_" + metric, Help: help}, name)
	}
	counter := func(metric, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_" + metric, Help: help}, name)
	}
	histogram := func(metric, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "workqueue_" + metric, Help: help, Buckets: prometheus.ExponentialBuckets(10e-9, 10, 12),
		}, name)
	}
	return &provider{
		depth:      gauge("depth", "Names that wait for a worker."),
		adds:       counter("adds_total", "Names added."),
		latency:    histogram("queue_duration_seconds", "How long a name waited for a worker."),
		duration:   histogram("work_duration_seconds", "How long working on a name took."),
		unfinished: gauge("unfinished_work_seconds", "How long the names that are being worked on have been, in sum."),
		longest:    gauge("longest_running_processor_seconds", "How long the oldest of them has been."),
		retries:    counter("retries_total", "Names added again after a failure."),
	}
}

func (p *provider) collectors() []prometheus.Collector {
	return []prometheus.Collector{p.depth, p.adds, p.latency, p.duration, p.unfinished, p.longest, p.retries}
}

// The methods of workqueue.MetricsProvider.

func (p *provider) NewDepthMetric(name string) workqueue.GaugeMetric {
	return p.depth.WithLabelValues(name)
}

func (p *provider) NewAddsMetric(name string) workqueue.CounterMetric {
	return p.adds.WithLabelValues(name)
}

func (p *provider) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return p.latency.WithLabelValues(name)
}

func (p *provider) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return p.duration.WithLabelValues(name)
}

func (p *provider) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return p.unfinished.WithLabelValues(name)
}

func (p *provider) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return p.longest.WithLabelValues(name)
}

func (p *provider) NewRetriesMetric(name string) workqueue.CounterMetric {
	return p.retries.WithLabelValues(name)
}
