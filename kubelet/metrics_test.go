package kubelet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"vigil/internal/eventually"
	"vigil/kubelet"
	"vigil/kubelet/simulated"
)

func TestMetrics(t *testing.T) {
	c := startCluster(t)
	registry := prometheus.NewRegistry()
	c.run(t, simulated.New(network), func(config *kubelet.Config) { config.Registerer = registry })
	c.create(t, "pod", func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "image"}}
	})
	running := func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == corev1.PodRunning }
	c.wait(t, "pod", "runs", running)
	const want = `# HELP kubelet_started_containers_total Cumulative number of containers started
# TYPE kubelet_started_containers_total counter
kubelet_started_containers_total{container_type="container"} 1
kubelet_started_containers_total{container_type="init_container"} 1
# HELP kubelet_started_pods_total Cumulative number of pods started
# TYPE kubelet_started_pods_total counter
kubelet_started_pods_total 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "kubelet_started_containers_total", "kubelet_started_pods_total"); err != nil {
		t.Error(err)
	}
	c.remove(t, "pod", 0)
	c.wait(t, "pod", "is gone", func(p *corev1.Pod) bool { return p == nil })
	var counts map[string]uint64
	eventually.Nil(t, "each round is counted", says(func() bool { // the worker may still be at the last one
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counts = map[string]uint64{}
		for _, f := range families {
			for _, m := range f.Metric {
				name := f.GetName()
				for _, l := range m.Label {
					name += " " + l.GetValue()
				}
				counts[name] = m.GetHistogram().GetSampleCount()
			}
		}
		return counts["kubelet_pod_worker_duration_seconds kill"] > 0
	}, func() string { return fmt.Sprintf("histograms: %v", counts) }))
	if counts["kubelet_pod_start_duration_seconds"] != 1 || counts["kubelet_pod_worker_duration_seconds create"] != 1 {
		t.Errorf("histograms: %v", counts)
	}
}
