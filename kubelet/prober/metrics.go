package prober

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"vigil/kubelet/probe"
)

// probeCounts is what the metrics say of one probe of a container. They go when the pod does.
type probeCounts struct {
	results [3]atomic.Uint64 // successful, failed, unknown
	sum     atomic.Int64     // nanoseconds that answers but failures took
	buckets [len(probeBuckets) + 1]atomic.Uint64
}

// probeBuckets are the bounds of the histogram, in seconds: those of prometheus.DefBuckets.
var probeBuckets = [...]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

var probeResults = [...]string{"successful", "failed", "unknown"}

func newProbeCounts() *probeCounts { return &probeCounts{} }

func (c *probeCounts) add(result probe.Result, took time.Duration) {
	switch result {
	case probe.Success, probe.Warning:
		c.results[0].Add(1)
	case probe.Failure:
		c.results[1].Add(1)
		return
	default:
		c.results[2].Add(1)
	}
	c.sum.Add(int64(took))
	at := 0
	for at < len(probeBuckets) && took.Seconds() > probeBuckets[at] {
		at++
	}
	c.buckets[at].Add(1)
}

var (
	probeTotal = prometheus.NewDesc("prober_probe_total", "Cumulative number of a liveness, readiness or startup probe for a container by result.",
		[]string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}, nil)
	probeDuration = prometheus.NewDesc("prober_probe_duration_seconds", "Duration in seconds for a probe response.",
		[]string{"probe_type", "container", "pod", "namespace"}, nil)
)

// Describe implements prometheus.Collector.
func (p *Prober) Describe(ch chan<- *prometheus.Desc) {
	ch <- probeTotal
	ch <- probeDuration
}

// Collect implements prometheus.Collector.
func (p *Prober) Collect(ch chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, known := range p.pods {
		for name, container := range known.containers {
			for kind, counts := range container.counts {
				if counts != nil {
					counts.collect(ch, probeKind(kind).String(), name, known.pod.Name, known.pod.Namespace, string(uid))
				}
			}
		}
	}
}

func (c *probeCounts) collect(ch chan<- prometheus.Metric, kind, container, pod, namespace, uid string) {
	for i := range c.results {
		if n := c.results[i].Load(); n > 0 {
			ch <- prometheus.MustNewConstMetric(probeTotal, prometheus.CounterValue, float64(n), kind, probeResults[i], container, pod, namespace, uid)
		}
	}
	buckets, total := make(map[float64]uint64, len(probeBuckets)), uint64(0)
	for i, bound := range probeBuckets {
		total += c.buckets[i].Load()
		buckets[bound] = total
	}
	if total += c.buckets[len(probeBuckets)].Load(); total > 0 {
		ch <- prometheus.MustNewConstHistogram(probeDuration, total, time.Duration(c.sum.Load()).Seconds(), buckets, kind, container, pod, namespace)
	}
}
