package admission

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are upstream's, with the labels resolved when the chain is made.
type metrics struct {
	steps, plugins *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_admission_step_admission_duration_seconds",
			Help:    "Time that all admission plug-ins of a step took together, by type (admit, validate), operation and whether the request was refused.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5},
		}, []string{"type", "operation", "rejected"}),
		plugins: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_admission_controller_admission_duration_seconds",
			Help:    "Time that an admission plug-in took, by name, type (admit, validate), operation and whether the request was refused.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5},
		}, []string{"name", "type", "operation", "rejected"}),
	}
	if reg != nil {
		reg.MustRegister(m.steps, m.plugins)
	}
	return m
}

// timing is where durations go.
type timing struct{ admitted, rejected prometheus.Observer }

func (t *timing) observe(d time.Duration, err error) {
	if err != nil {
		t.rejected.Observe(d.Seconds())
		return
	}
	t.admitted.Observe(d.Seconds())
}

func (m *metrics) step(typ string, op Operation) timing {
	of := func(rejected bool) prometheus.Observer {
		return m.steps.WithLabelValues(typ, string(op), strconv.FormatBool(rejected))
	}
	return timing{admitted: of(false), rejected: of(true)}
}

func (m *metrics) plugin(name, typ string, op Operation) timing {
	of := func(rejected bool) prometheus.Observer {
		return m.plugins.WithLabelValues(name, typ, string(op), strconv.FormatBool(rejected))
	}
	return timing{admitted: of(false), rejected: of(true)}
}
