package server

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// serverMetrics are upstream's (pkg/kubelet/server/metrics).
type serverMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
}

func newServerMetrics(reg prometheus.Registerer) *serverMetrics {
	labels := []string{"method", "path", "server_type", "long_running"}
	m := &serverMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_http_requests_total", Help: "Number of the http requests received since the server started",
		}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_http_requests_duration_seconds", Help: "Duration in seconds to serve http requests", Buckets: prometheus.DefBuckets,
		}, labels),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_http_inflight_requests", Help: "Number of the inflight http requests",
		}, labels),
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.duration, m.inflight)
	}
	return m
}

// metricsOf shows the metrics whose names are wanted.
func metricsOf(all prometheus.Gatherer, wanted func(name string) bool) http.Handler {
	some := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !wanted(f.GetName()) }), err
	})
	return promhttp.HandlerFor(some, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

var (
	countedMethods = []string{"OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"}
	countedPaths   = []string{
		"healthz", "pods", "stats", "metrics", "metrics/cadvisor", "metrics/probes", "metrics/resource", "run", "exec", "attach", "portForward",
		"containerLogs", "configz", "runningpods", "checkpoint", "logs", "debug",
	}
	longPaths = []string{"exec", "attach", "portForward", "debug"}
)

// begin counts a request and returns what to call when it is over.
func (m *serverMetrics) begin(r *http.Request) func() {
	method, path := r.Method, strings.TrimPrefix(r.URL.Path, "/")
	if !slices.Contains(countedMethods, method) {
		method = "other"
	}
	if !slices.Contains(countedPaths, path) {
		if path, _, _ = strings.Cut(path, "/"); !slices.Contains(countedPaths, path) {
			path = "other"
		}
	}
	long := "false"
	if slices.Contains(longPaths, path) {
		long = "true"
	}
	labels := []string{method, path, "readwrite", long}
	m.requests.WithLabelValues(labels...).Inc()
	inflight, began := m.inflight.WithLabelValues(labels...), time.Now()
	inflight.Inc()
	return func() {
		inflight.Dec()
		m.duration.WithLabelValues(labels...).Observe(time.Since(began).Seconds())
	}
}
