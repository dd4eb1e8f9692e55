package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"vigil/apiserver/listmemory"
)

// RegisterBudget shows what lists under way hold, and who had to wait or was cut off for it.
func RegisterBudget(reg prometheus.Registerer, stats func() listmemory.Stats) {
	gauge := func(labels prometheus.Labels, name, help string, value func(listmemory.Stats) int64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(value(stats())) }))
	}
	counter := func(name, help string, value func(listmemory.Stats) int64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(value(stats())) }))
	}
	const held, heldHelp = "apiserver_list_bytes_inflight", "Memory that lists under way hold: in buffers, and in replaced objects that their snapshots keep."
	gauge(prometheus.Labels{"kind": "buffered"}, held, heldHelp, func(s listmemory.Stats) int64 { return s.UsedBytes })
	gauge(prometheus.Labels{"kind": "retained"}, held, heldHelp, func(s listmemory.Stats) int64 { return s.RetainedBytes })
	gauge(nil, "apiserver_list_waiting", "Lists that wait for room in the budget.", func(s listmemory.Stats) int64 { return int64(s.Waiting) })
	counter("apiserver_list_waits_total", "Lists that had to wait for room in the budget.", func(s listmemory.Stats) int64 { return s.Waited })
	counter("apiserver_list_cuts_total", "Lists that were cut off because their clients did not read while others waited, or because their snapshots kept too much.",
		func(s listmemory.Stats) int64 { return s.Cut })
}
