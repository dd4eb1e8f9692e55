package audit

import (
	"github.com/prometheus/client_golang/prometheus"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
)

// auditMetrics have upstream's names.
type auditMetrics struct {
	events   prometheus.Counter
	errors   *prometheus.CounterVec
	levels   *prometheus.CounterVec
	rejected prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *auditMetrics {
	m := &auditMetrics{
		events: prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_audit_event_total",
			Help: "Audit events made, whether they reached a backend or not."}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_audit_error_total",
			Help: "Audit events lost, by the backend or the queue (buffered) that lost them."}, []string{"plugin"}),
		levels: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_audit_level_total",
			Help: "Requests by the level at which the policy has them audited."}, []string{"level"}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_audit_requests_rejected_total",
			Help: "Requests refused because they could not be written down."}),
	}
	if reg != nil {
		reg.MustRegister(m.events, m.errors, m.levels, m.rejected)
	}
	return m
}

func (m *auditMetrics) level(l auditapi.Level) { m.levels.WithLabelValues(string(l)).Inc() }

func (m *auditMetrics) lost(plugin string, n int) { m.errors.WithLabelValues(plugin).Add(float64(n)) }
