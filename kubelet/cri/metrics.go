package cri

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts requests to the runtime, under upstream's names.
type metrics struct {
	operations *prometheus.CounterVec
	errors     *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	pulls      *prometheus.HistogramVec
	collected  *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_total", Help: "Cumulative number of runtime operations by operation type.",
		}, []string{"operation_type"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_errors_total", Help: "Cumulative number of runtime operation errors by operation type.",
		}, []string{"operation_type"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_runtime_operations_duration_seconds", Help: "Duration in seconds of runtime operations. Broken down by operation type.",
			Buckets: prometheus.ExponentialBuckets(.005, 2.5, 14),
		}, []string{"operation_type"}),
		pulls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_image_pull_duration_seconds", Help: "Duration in seconds to pull an image.",
			Buckets: []float64{1, 5, 10, 20, 30, 60, 180, 300, 600, 900, 1200, 1800, 2700, 3600},
		}, []string{"image_size_in_bytes"}),
		collected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_image_garbage_collected_total", Help: "Total number of images garbage collected by the kubelet, whether through disk usage or image age.",
		}, []string{"reason"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.operations, m.errors, m.seconds, m.pulls, m.collected)
	}
	return m
}

// operationTypes are upstream's names of the interface's methods.
var operationTypes = map[string]string{
	"Version": "version", "Status": "status", "RuntimeConfig": "runtime_config", "UpdateRuntimeConfig": "update_runtime_config",
	"RunPodSandbox": "run_podsandbox", "StopPodSandbox": "stop_podsandbox", "RemovePodSandbox": "remove_podsandbox",
	"PodSandboxStatus": "podsandbox_status", "ListPodSandbox": "list_podsandbox", "UpdatePodSandboxResources": "update_podsandbox_resources",
	"CreateContainer": "create_container", "StartContainer": "start_container", "StopContainer": "stop_container",
	"RemoveContainer": "remove_container", "ListContainers": "list_containers", "ContainerStatus": "container_status",
	"UpdateContainerResources": "update_container", "ReopenContainerLog": "reopen_container_log",
	"CheckpointContainer": "checkpoint_container", "ExecSync": "exec_sync", "Exec": "exec", "Attach": "attach", "PortForward": "port_forward",
	"ContainerStats": "container_stats", "ListContainerStats": "list_container_stats",
	"PodSandboxStats": "podsandbox_stats", "ListPodSandboxStats": "list_podsandbox_stats",
	"ListImages": "list_images", "ImageStatus": "image_status", "PullImage": "pull_image", "RemoveImage": "remove_image", "ImageFsInfo": "image_fs_info",
}

// observe counts one request; method is gRPC's, "/runtime.v1.RuntimeService/Version".
func (m *metrics) observe(method string, began time.Time, err error) {
	operation, known := operationTypes[method[strings.LastIndexByte(method, '/')+1:]]
	if !known {
		operation = "other"
	}
	m.operations.WithLabelValues(operation).Inc()
	m.seconds.WithLabelValues(operation).Observe(time.Since(began).Seconds())
	if err != nil {
		m.errors.WithLabelValues(operation).Inc()
	}
}

// sizeBuckets are upstream's names of image sizes, by what an image is smaller than.
var sizeBuckets = []struct {
	below int64 // bytes
	name  string
}{
	{10 << 20, "0-10MB"}, {100 << 20, "10MB-100MB"}, {500 << 20, "100MB-500MB"}, {1 << 30, "500MB-1GB"}, {10 << 30, "1GB-10GB"},
	{50 << 30, "10GB-50GB"}, {100 << 30, "50GB-100GB"},
}

// pulled counts a pull of an image of so many bytes, which took so long with waiting for its turn.
func (m *metrics) pulled(bytes int64, took time.Duration) {
	name := "GT100GB"
	for _, b := range sizeBuckets {
		if bytes < b.below {
			name = b.name
			break
		}
	}
	m.pulls.WithLabelValues(name).Observe(took.Seconds())
}
