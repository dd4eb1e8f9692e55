package stats

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// Descriptions of what /metrics has of pods and volumes, upstream's (pkg/kubelet/metrics).
var (
	nodeNameDesc    = describe("kubelet_node_name", "The node's name. The count is always 1.", "node")
	runningPodsDesc = describe("kubelet_running_pods", "Number of pods that have a running pod sandbox")
	containersDesc  = describe("kubelet_running_containers", "Number of containers currently running", "container_state")
)

// volumeSeries are of each volume that is a claim's.
var volumeSeries = []struct {
	desc  *prometheus.Desc
	value func(*Volume) uint64
}{
	{ofClaim("capacity_bytes", "Capacity in bytes of the volume"), func(v *Volume) uint64 { return v.Filesystem.Capacity }},
	{ofClaim("available_bytes", "Number of available bytes in the volume"), func(v *Volume) uint64 { return v.Filesystem.Available }},
	{ofClaim("used_bytes", "Number of used bytes in the volume"), func(v *Volume) uint64 { return v.Bytes }},
	{ofClaim("inodes", "Maximum number of inodes in the volume"), func(v *Volume) uint64 { return v.Filesystem.Inodes }},
	{ofClaim("inodes_free", "Number of free inodes in the volume"), func(v *Volume) uint64 { return v.Filesystem.InodesFree }},
	{ofClaim("inodes_used", "Number of used inodes in the volume"), func(v *Volume) uint64 { return v.Inodes }},
}

func ofClaim(name, help string) *prometheus.Desc {
	return describe("kubelet_volume_stats_"+name, help, "namespace", "persistentvolumeclaim")
}

// Collector counts the node's pods and containers and measures the volumes of claims, for the kubelet's /metrics.
func (p *Provider) Collector() prometheus.Collector { return podCollector{p} }

type podCollector struct{ *Provider }

// Describe implements prometheus.Collector.
func (c podCollector) Describe(out chan<- *prometheus.Desc) {
	out <- nodeNameDesc
	out <- runningPodsDesc
	out <- containersDesc
	for _, series := range volumeSeries {
		out <- series.desc
	}
}

// Collect implements prometheus.Collector.
func (c podCollector) Collect(out chan<- prometheus.Metric) {
	emit := &emitter{out: out}
	emit.gauge(nodeNameDesc, 1, c.config.Node)
	running, containers := 0, map[string]int{"running": 0}
	claims := map[[2]string]*Volume{} // a claim that several pods use is one
	for _, pod := range c.config.Pods() {
		if active := countContainers(pod, containers); active {
			running++
		}
		c.mu.Lock()
		disk := c.disks[pod.UID]
		c.mu.Unlock()
		if disk == nil {
			continue
		}
		for i := range disk.volumes {
			if v := &disk.volumes[i]; v.Claim != "" {
				claims[[2]string{pod.Namespace, v.Claim}] = v
			}
		}
	}
	emit.gauge(runningPodsDesc, float64(running))
	for state, n := range containers {
		emit.gauge(containersDesc, float64(n), state)
	}
	for claim, v := range claims {
		for _, series := range volumeSeries {
			emit.gauge(series.desc, float64(series.value(v)), claim[0], claim[1])
		}
	}
}

// countContainers counts a pod's containers by state and says whether one runs.
func countContainers(pod *corev1.Pod, byState map[string]int) (runs bool) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range statuses {
			switch state := &statuses[i].State; {
			case state.Running != nil:
				byState["running"]++
				runs = true
			case state.Terminated != nil:
				byState["exited"]++
			}
		}
	}
	return runs
}
