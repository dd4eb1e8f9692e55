// Package slis counts what health checks find, for /metrics/slis: service level indicators with upstream's names
// (k8s.io/component-base/metrics/prometheus/slis). A component has one Metrics, which all its health endpoints tell.
package slis

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Path is where Metrics are served.
const Path = "/metrics/slis"

// Metrics are made by New. A nil one counts nothing.
type Metrics struct {
	registry *prometheus.Registry
	current  *prometheus.GaugeVec
	total    *prometheus.CounterVec
}

// New returns metrics in a registry of their own: they are not among those of /metrics.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		current: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubernetes_healthcheck", Help: "Whether a health check passed when it was last asked: 1 or 0.",
		}, []string{"name", "type"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubernetes_healthchecks_total", Help: "How often a health check was asked, by what it found.",
		}, []string{"name", "type", "status"}),
	}
	m.registry.MustRegister(m.current, m.total)
	return m
}

// Observe counts one answer of a check at an endpoint (healthz, livez or readyz). Both come from closed sets.
func (m *Metrics) Observe(check, endpoint string, err error) {
	if m == nil {
		return
	}
	if err != nil {
		m.current.WithLabelValues(check, endpoint).Set(0)
		m.total.WithLabelValues(check, endpoint, "error").Inc()
		return
	}
	m.current.WithLabelValues(check, endpoint).Set(1)
	m.total.WithLabelValues(check, endpoint, "success").Inc()
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
