package eviction

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// metrics have upstream's names.
type metrics struct {
	evictions *prometheus.CounterVec
	age       *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) metrics {
	m := metrics{
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_evictions", Help: "Cumulative number of pod evictions by eviction signal",
		}, []string{"eviction_signal"}),
		age: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_eviction_stats_age_seconds", Help: "Time between when stats are collected, and when pod is evicted based on those stats by eviction signal",
			Buckets: prometheus.DefBuckets,
		}, []string{"eviction_signal"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.evictions, m.age)
	}
	return m
}

func (m metrics) evicted(signal string) { m.evictions.WithLabelValues(signal).Inc() }

func (m metrics) observed(signal Signal, age time.Duration) {
	m.age.WithLabelValues(string(signal)).Observe(age.Seconds())
}

// nodeUID is what events about the node itself carry: its name, as the kubelet may not have seen the object.
func nodeUID(node string) types.UID { return types.UID(node) }
