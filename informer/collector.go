package informer

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// collector reports what a factory's informers hold at the moment they are asked. Informers of one resource with different
// selections are added up.
type collector struct {
	factory                         *Factory
	objects, bytes, waiting, merged *prometheus.Desc
}

func newCollector(f *Factory) *collector {
	labels := []string{"group", "resource"}
	return &collector{
		factory: f,
		objects: prometheus.NewDesc("informer_objects", "Objects held.", labels, nil),
		bytes:   prometheus.NewDesc("informer_object_bytes", "Size of the objects held, encoded.", labels, nil),
		waiting: prometheus.NewDesc("informer_handlers_waiting", "Objects that handlers have still to be told about.", labels, nil),
		merged:  prometheus.NewDesc("informer_handlers_merged_total", "Changes that handlers were not told of singly because they were slower.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.objects
	ch <- c.bytes
	ch <- c.waiting
	ch <- c.merged
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	type sums struct{ objects, bytes, waiting, merged float64 }
	all := map[schema.GroupResource]*sums{}
	for _, i := range c.factory.all() {
		s := all[i.resource.GroupResource()]
		if s == nil {
			s = &sums{}
			all[i.resource.GroupResource()] = s
		}
		s.objects += float64(i.indexer.Len())
		s.bytes += float64(i.indexer.SizeBytes())
		i.mu.Lock()
		for r := range i.handlers {
			waiting, merged := r.queue.depth()
			s.waiting += float64(waiting)
			s.merged += float64(merged)
		}
		i.mu.Unlock()
	}
	for gr, s := range all {
		ch <- prometheus.MustNewConstMetric(c.objects, prometheus.GaugeValue, s.objects, gr.Group, gr.Resource)
		ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, s.bytes, gr.Group, gr.Resource)
		ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, s.waiting, gr.Group, gr.Resource)
		ch <- prometheus.MustNewConstMetric(c.merged, prometheus.CounterValue, s.merged, gr.Group, gr.Resource)
	}
}
