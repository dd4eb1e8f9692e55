package kubelet

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// metrics are of the workers, under upstream's names (pkg/kubelet/metrics). nil counts nothing.
type metrics struct {
	rounds     *prometheus.HistogramVec
	starts     prometheus.Histogram
	sandboxes  prometheus.Counter
	containers *prometheus.CounterVec
}

// Operations of workers, as upstream names them.
const (
	operationCreate = "create"
	operationSync   = "sync"
	operationKill   = "kill"
)

// startBuckets are upstream's, in seconds: images may take long.
var startBuckets = []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		rounds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_pod_worker_duration_seconds", Help: "Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync",
			Buckets: prometheus.DefBuckets,
		}, []string{"operation_type"}),
		starts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pod_start_duration_seconds", Help: "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
			Buckets: startBuckets,
		}),
		sandboxes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_started_pods_total", Help: "Cumulative number of pods started",
		}),
		containers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_started_containers_total", Help: "Cumulative number of containers started",
		}, []string{"container_type"}),
	}
	for _, c := range []prometheus.Collector{m.rounds, m.starts, m.sandboxes, m.containers} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// round notes a round of a worker.
func (m *metrics) round(operation string, began time.Time) {
	if m != nil {
		m.rounds.WithLabelValues(operation).Observe(time.Since(began).Seconds())
	}
}

// running notes that a pod runs for the first time.
func (m *metrics) running(since time.Time) {
	if m != nil {
		m.starts.Observe(time.Since(since).Seconds())
	}
}

// sandboxStarted and containerStarted count; kind is "container", "init_container" or "ephemeral_container".
func (m *metrics) sandboxStarted() {
	if m != nil {
		m.sandboxes.Inc()
	}
}

func (m *metrics) containerStarted(kind string) {
	if m != nil {
		m.containers.WithLabelValues(kind).Inc()
	}
}

// containerKind is how metrics name what sort of container one is.
func containerKind(pod *corev1.Pod, c *corev1.Container) string {
	switch {
	case initContainer(pod, c):
		return "init_container"
	case ephemeral(pod, c.Name):
		return "ephemeral_container"
	}
	return "container"
}
