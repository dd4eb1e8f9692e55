package stats

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/cgroups"
	"vigil/kubelet/machine"
)

// cadvisorLabels are on every series of /metrics/cadvisor: the group's path, and what it is. A pod's own group has no container, name and image.
var cadvisorLabels = []string{"id", "name", "image", "container", "pod", "namespace"}

// cadvisorSeries is a series with one value for each group, as cAdvisor names it.
type cadvisorSeries struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*cgroups.Usage) float64
	has   func(*cgroups.Usage) bool
}

func hasMemory(u *cgroups.Usage) bool { return u.HasMemory }
func hasPids(u *cgroups.Usage) bool   { return u.HasPids }
func throttles(u *cgroups.Usage) bool { return u.Periods > 0 }

func cadvisor(name, help string, more ...string) *prometheus.Desc {
	return describe(name, help, append(append([]string{}, cadvisorLabels...), more...)...)
}

// groupSeries are the series of every group, cAdvisor's names and help texts.
var groupSeries = []cadvisorSeries{
	{cadvisor("container_cpu_cfs_periods_total", "Number of elapsed enforcement period intervals."), prometheus.CounterValue, func(u *cgroups.Usage) float64 { return float64(u.Periods) }, throttles},
	{cadvisor("container_cpu_cfs_throttled_periods_total", "Number of throttled period intervals."), prometheus.CounterValue, func(u *cgroups.Usage) float64 { return float64(u.ThrottledPeriods) }, throttles},
	{cadvisor("container_cpu_cfs_throttled_seconds_total", "Total time duration the container has been throttled."), prometheus.CounterValue, func(u *cgroups.Usage) float64 { return u.Throttled.Seconds() }, throttles},
	{cadvisor("container_memory_usage_bytes", "Current memory usage in bytes, including all memory regardless of when it was accessed"), prometheus.GaugeValue, func(u *cgroups.Usage) float64 { return float64(u.Memory) }, hasMemory},
	{cadvisor("container_memory_working_set_bytes", "Current working set in bytes."), prometheus.GaugeValue, func(u *cgroups.Usage) float64 { return float64(u.WorkingSet) }, hasMemory},
	{cadvisor("container_memory_rss", "Size of RSS in bytes."), prometheus.GaugeValue, func(u *cgroups.Usage) float64 { return float64(u.RSS) }, hasMemory},
	{cadvisor("container_memory_cache", "Number of bytes of page cache memory."), prometheus.GaugeValue, func(u *cgroups.Usage) float64 { return float64(u.Cache) }, hasMemory},
	{cadvisor("container_memory_mapped_file", "Size of memory mapped files in bytes."), prometheus.GaugeValue, func(u *cgroups.Usage) float64 { return float64(u.MappedFile) }, hasMemory},
	{cadvisor("container_memory_swap", "Container swap usage in bytes."), prometheus.GaugeValue, func(u *cgroups.Usage) float64 { return float64(u.Swap) }, hasMemory},
	{cadvisor("container_spec_memory_limit_bytes", "Memory limit for the container."), prometheus.GaugeValue, func(u *cgroups.Usage) float64 { return float64(u.MemoryLimit) }, hasMemory},
	{cadvisor("container_threads", "Number of threads running inside the container"), prometheus.GaugeValue, func(u *cgroups.Usage) float64 { return float64(u.Pids) }, hasPids},
}

var (
	cadvisorCPU      = cadvisor("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", "cpu")
	cadvisorFailures = cadvisor("container_memory_failures_total", "Cumulative count of memory allocation failures.", "failure_type", "scope")
	cadvisorSeen     = cadvisor("container_last_seen", "Last time a container was seen by the exporter")
	cadvisorStart    = cadvisor("container_start_time_seconds", "Start time of the container since unix epoch in seconds.")
	cadvisorFsUsage  = cadvisor("container_fs_usage_bytes", "Number of bytes that are consumed by the container on this filesystem.", "device")
	cadvisorFsInodes = cadvisor("container_fs_inodes_total", "Number of Inodes", "device")
	cadvisorFsFree   = cadvisor("container_fs_inodes_free", "Number of available Inodes", "device")
	cadvisorFsLimit  = cadvisor("container_fs_limit_bytes", "Number of bytes that can be consumed by the container on this filesystem.", "device")
	cadvisorPeriod   = cadvisor("container_spec_cpu_period", "CPU period of the container.")
	cadvisorQuota    = cadvisor("container_spec_cpu_quota", "CPU quota of the container.")
	cadvisorShares   = cadvisor("container_spec_cpu_shares", "CPU share of the container.")

	machineCores  = describe("machine_cpu_cores", "Number of logical CPU cores.")
	machineMemory = describe("machine_memory_bytes", "Amount of memory installed on the machine.")
	cadvisorError = describe("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise")
)

// networkSeries are of the pod's sandbox, one for each interface.
var networkSeries = []struct {
	desc  *prometheus.Desc
	value func(*networkInterface) uint64
}{
	{cadvisor("container_network_receive_bytes_total", "Cumulative count of bytes received", "interface"), func(i *networkInterface) uint64 { return i.rxBytes }},
	{cadvisor("container_network_receive_packets_total", "Cumulative count of packets received", "interface"), func(i *networkInterface) uint64 { return i.rxPackets }},
	{cadvisor("container_network_receive_packets_dropped_total", "Cumulative count of packets dropped while receiving", "interface"), func(i *networkInterface) uint64 { return i.rxDropped }},
	{cadvisor("container_network_receive_errors_total", "Cumulative count of errors encountered while receiving", "interface"), func(i *networkInterface) uint64 { return i.rxErrors }},
	{cadvisor("container_network_transmit_bytes_total", "Cumulative count of bytes transmitted", "interface"), func(i *networkInterface) uint64 { return i.txBytes }},
	{cadvisor("container_network_transmit_packets_total", "Cumulative count of packets transmitted", "interface"), func(i *networkInterface) uint64 { return i.txPackets }},
	{cadvisor("container_network_transmit_packets_dropped_total", "Cumulative count of packets dropped while transmitting", "interface"), func(i *networkInterface) uint64 { return i.txDropped }},
	{cadvisor("container_network_transmit_errors_total", "Cumulative count of errors encountered while transmitting", "interface"), func(i *networkInterface) uint64 { return i.txErrors }},
}

// ServeCadvisor serves /metrics/cadvisor: the series of cAdvisor that dashboards and alerts use.
func (p *Provider) ServeCadvisor() http.Handler {
	return p.serve(func(s *sample, err error, emit *emitter) {
		failed := 0.0
		if err != nil {
			failed = 1
		} else {
			cadvisorMetrics(s, emit)
		}
		emit.at = time.Time{}
		emit.gauge(cadvisorError, failed)
	})
}

func cadvisorMetrics(s *sample, emit *emitter) {
	if capacity, err := machine.Capacity(machine.Config{RootDir: "/"}); err == nil {
		cpus, memory := capacity[corev1.ResourceCPU], capacity[corev1.ResourceMemory]
		emit.gauge(machineCores, cpus.AsApproximateFloat64())
		emit.gauge(machineMemory, memory.AsApproximateFloat64())
	}
	emit.group(&s.node, time.Time{}, []string{"/", "", "", "", "", ""})
	emit.network(s.network, []string{"/", "", "", "", "", ""})
	if s.root != nil {
		emit.disk(*s.root, s.root.Used, []string{"/", "", "", "", "", ""})
	}
	emit.group(&s.allPods, time.Time{}, []string{s.allPods.group, "", "", "", "", ""})
	for i := range s.pods {
		p := &s.pods[i]
		pod := []string{p.group, "", "", "", p.pod.Name, p.pod.Namespace}
		emit.group(&p.measured, p.started, pod)
		emit.network(p.network, pod)
		for j := range p.containers {
			c := &p.containers[j]
			labels := []string{c.group, c.id, c.image, c.name, p.pod.Name, p.pod.Namespace}
			emit.group(&c.measured, c.started, labels)
			emit.spec(c, labels)
			if c.layer != nil && s.files != nil {
				emit.disk(s.files.layers, c.layer.bytes, labels)
			}
		}
	}
}

func with(labels []string, more ...string) []string {
	return append(append(make([]string, 0, len(labels)+len(more)), labels...), more...)
}

func (e *emitter) group(m *measured, started time.Time, labels []string) {
	if m.Time.IsZero() {
		return
	}
	e.at = m.Time
	if m.HasCPU {
		e.counter(cadvisorCPU, m.CPU.Seconds(), with(labels, "total")...)
	}
	for _, series := range groupSeries {
		if series.has(&m.Usage) {
			e.send(series.desc, series.kind, series.value(&m.Usage), with(labels))
		}
	}
	if m.HasMemory {
		e.counter(cadvisorFailures, float64(m.PageFaults), with(labels, "pgfault", "hierarchy")...)
		e.counter(cadvisorFailures, float64(m.MajorPageFaults), with(labels, "pgmajfault", "hierarchy")...)
	}
	e.gauge(cadvisorSeen, float64(m.Time.Unix()), with(labels)...)
	if !started.IsZero() {
		e.gauge(cadvisorStart, float64(started.Unix()), with(labels)...)
	}
}

func (e *emitter) network(interfaces []networkInterface, labels []string) {
	for i := range interfaces {
		for _, series := range networkSeries {
			e.counter(series.desc, float64(series.value(&interfaces[i])), with(labels, interfaces[i].name)...)
		}
	}
}

func (e *emitter) disk(fs machine.Filesystem, used uint64, labels []string) {
	labels = with(labels, "/dev/"+strconv.FormatUint(fs.Device>>8&0xfff, 10)+":"+strconv.FormatUint(fs.Device&0xff, 10))
	e.gauge(cadvisorFsUsage, float64(used), with(labels)...)
	e.gauge(cadvisorFsLimit, float64(fs.Capacity), with(labels)...)
	e.gauge(cadvisorFsInodes, float64(fs.Inodes), with(labels)...)
	e.gauge(cadvisorFsFree, float64(fs.InodesFree), with(labels)...)
}

// spec tells what a container may use, from its spec.
func (e *emitter) spec(c *containerSample, labels []string) {
	if c.spec == nil {
		return
	}
	const period = 100000 // µs
	e.gauge(cadvisorPeriod, period, with(labels)...)
	request, limit := c.spec.Resources.Requests.Cpu(), c.spec.Resources.Limits.Cpu()
	if request.IsZero() {
		request = limit
	}
	e.gauge(cadvisorShares, float64(cgroups.Shares(request.MilliValue())), with(labels)...)
	if !limit.IsZero() {
		e.gauge(cadvisorQuota, float64(cgroups.Quota(limit.MilliValue(), period)), with(labels)...)
	}
}
