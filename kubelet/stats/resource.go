package stats

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Descriptions of /metrics/resource, upstream's (pkg/kubelet/metrics/collectors/resource_metrics.go). metrics-server and the metrics API read
// them.
var (
	nodeCPU           = describe("node_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the node in core-seconds")
	nodeMemory        = describe("node_memory_working_set_bytes", "[STABLE] Current working set of the node in bytes")
	nodeSwap          = describe("node_swap_usage_bytes", "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems")
	containerCPU      = describe("container_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the container in core-seconds", "container", "pod", "namespace")
	containerMemory   = describe("container_memory_working_set_bytes", "[STABLE] Current working set of the container in bytes", "container", "pod", "namespace")
	containerSwap     = describe("container_swap_usage_bytes", "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems", "container", "pod", "namespace")
	containerStart    = describe("container_start_time_seconds", "[STABLE] Start time of the container since unix epoch in seconds", "container", "pod", "namespace")
	podCPU            = describe("pod_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the pod in core-seconds", "pod", "namespace")
	podMemory         = describe("pod_memory_working_set_bytes", "[STABLE] Current working set of the pod in bytes", "pod", "namespace")
	podSwap           = describe("pod_swap_usage_bytes", "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems", "pod", "namespace")
	resourceScrapeErr = describe("resource_scrape_error", "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// ServeResource serves /metrics/resource.
func (p *Provider) ServeResource() http.Handler {
	return p.serve(func(s *sample, err error, emit *emitter) {
		failed := 0.0
		if err != nil {
			failed = 1
		} else {
			resourceMetrics(s, emit)
		}
		emit.at = time.Time{}
		emit.gauge(resourceScrapeErr, failed)
	})
}

func resourceMetrics(s *sample, emit *emitter) {
	emit.usage(&s.node, nodeCPU, nodeMemory, nodeSwap)
	for i := range s.pods {
		p := &s.pods[i]
		for j := range p.containers {
			c := &p.containers[j]
			emit.usage(&c.measured, containerCPU, containerMemory, containerSwap, c.name, p.pod.Name, p.pod.Namespace)
			emit.at = time.Time{} // the start is old, and a time that old is refused
			emit.gauge(containerStart, float64(c.started.UnixNano())/float64(time.Second), c.name, p.pod.Name, p.pod.Namespace)
		}
		emit.usage(&p.measured, podCPU, podMemory, podSwap, p.pod.Name, p.pod.Namespace)
	}
}

// serve makes a handler of Prometheus text out of the newest figures.
func (p *Provider) serve(collect func(*sample, error, *emitter)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(collector{ctx: r.Context(), provider: p, collect: collect})
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: false}).ServeHTTP(w, r)
	})
}

// collector lives for a request.
type collector struct {
	ctx      context.Context
	provider *Provider
	collect  func(*sample, error, *emitter)
}

// Describe describes nothing: what there is depends on what runs.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the figures of the last round.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s, err := c.provider.sample(c.ctx, c.provider.config.Period)
	if err != nil {
		c.provider.config.Logger.Warn("the kubelet could not measure its node; metrics are missing or old", "node", c.provider.config.Node, "error", err)
	}
	c.collect(s, err, &emitter{out: out})
}

// emitter sends metrics, with the time they were measured at.
type emitter struct {
	out chan<- prometheus.Metric
	at  time.Time // zero: none
}

func (e *emitter) send(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) {
	for i, label := range labels {
		labels[i] = strings.ToValidUTF8(label, "�")
	}
	metric := prometheus.MustNewConstMetric(desc, kind, value, labels...)
	if !e.at.IsZero() {
		metric = prometheus.NewMetricWithTimestamp(e.at, metric)
	}
	e.out <- metric
}

func (e *emitter) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	e.send(desc, prometheus.GaugeValue, value, labels)
}

func (e *emitter) counter(desc *prometheus.Desc, value float64, labels ...string) {
	e.send(desc, prometheus.CounterValue, value, labels)
}

func (e *emitter) usage(m *measured, cpu, memory, swap *prometheus.Desc, labels ...string) {
	e.at = m.Time
	if m.HasCPU {
		e.counter(cpu, m.CPU.Seconds(), labels...)
	}
	if m.HasMemory {
		e.gauge(memory, float64(m.WorkingSet), labels...)
		e.gauge(swap, float64(m.Swap), labels...)
	}
}
