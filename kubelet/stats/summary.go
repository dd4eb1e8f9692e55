package stats

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"vigil/kubelet/machine"
)

// Summary is what the node and its pods use, at most age old; 0 measures now. With only the fields of CPU and memory when onlyCPUAndMemory
// is true. The result is the caller's.
func (p *Provider) Summary(ctx context.Context, age time.Duration, onlyCPUAndMemory bool) (*statsapi.Summary, error) {
	s, err := p.sample(ctx, age)
	if err != nil {
		return nil, err
	}
	f := form{sample: s, files: s.files, brief: onlyCPUAndMemory}
	summary := &statsapi.Summary{Node: f.node(p.config.Node, p.started), Pods: make([]statsapi.PodStats, 0, len(s.pods))}
	for i := range s.pods {
		summary.Pods = append(summary.Pods, f.pod(&s.pods[i]))
	}
	return summary, nil
}

// Period is how old figures are that cost nothing: what HTTP handlers ask for.
func (p *Provider) Period() time.Duration { return p.config.Period }

// form makes a summary of a sample.
type form struct {
	sample *sample
	files  *fileSystems
	brief  bool
}

func (f form) node(name string, started time.Time) statsapi.NodeStats {
	s := f.sample
	n := statsapi.NodeStats{
		NodeName: name, StartTime: metav1.NewTime(started),
		CPU: cpuStats(&s.node), Memory: memoryStats(&s.node), Swap: swapStats(&s.node),
		SystemContainers: []statsapi.ContainerStats{
			{Name: statsapi.SystemContainerKubelet, StartTime: metav1.NewTime(started), CPU: cpuStats(&s.self), Memory: memoryStats(&s.self)},
			{Name: statsapi.SystemContainerPods, StartTime: metav1.NewTime(started), CPU: cpuStats(&s.allPods), Memory: memoryStats(&s.allPods), Swap: swapStats(&s.allPods)},
		},
	}
	if n.Memory != nil && n.Memory.AvailableBytes == nil {
		if total, err := machine.Memory(); err == nil { // the machine as a whole has what it has
			n.Memory.AvailableBytes = new(total - min(total, *n.Memory.WorkingSetBytes))
		}
	}
	if f.brief {
		return n
	}
	n.Network = networkStats(s.time, s.network)
	if s.root != nil {
		n.Fs = fsStats(s.time, *s.root, s.root.Used, s.root.InodesUsed)
	}
	if f.files != nil {
		n.Runtime = f.runtime()
	}
	if s.maxPID > 0 {
		n.Rlimit = &statsapi.RlimitStats{Time: metav1.NewTime(s.time), MaxPID: new(s.maxPID), NumOfRunningProcesses: new(s.threads)}
	}
	return n
}

func (f form) runtime() *statsapi.RuntimeStats {
	r := &statsapi.RuntimeStats{ImageFs: fsStats(f.files.time, f.files.images, f.files.imagesUsed.bytes, f.files.imagesUsed.inodes)}
	r.ContainerFs = fsStats(f.files.time, f.files.layers, f.files.layersUsed.bytes, f.files.layersUsed.inodes)
	return r
}

func (f form) pod(p *podSample) statsapi.PodStats {
	stats := statsapi.PodStats{
		PodRef:    statsapi.PodReference{Name: p.pod.Name, Namespace: p.pod.Namespace, UID: string(p.pod.UID)},
		StartTime: metav1.NewTime(p.started), Containers: make([]statsapi.ContainerStats, 0, len(p.containers)),
		CPU: cpuStats(&p.measured), Memory: memoryStats(&p.measured), Swap: swapStats(&p.measured),
	}
	for i := range p.containers {
		stats.Containers = append(stats.Containers, f.container(&p.containers[i]))
	}
	if f.brief {
		return stats
	}
	stats.Network = networkStats(p.Time, p.network)
	if p.HasPids {
		stats.ProcessStats = &statsapi.ProcessStats{ProcessCount: new(p.Pids)}
	}
	if p.disk != nil {
		f.disk(p, &stats)
	}
	return stats
}

func (f form) container(c *containerSample) statsapi.ContainerStats {
	stats := statsapi.ContainerStats{
		Name: c.name, StartTime: metav1.NewTime(c.started), CPU: cpuStats(&c.measured), Memory: memoryStats(&c.measured), Swap: swapStats(&c.measured),
	}
	if f.brief {
		return stats
	}
	if c.layer != nil && f.files != nil {
		stats.Rootfs = fsStats(c.layer.time, f.files.layers, c.layer.bytes, c.layer.inodes)
	}
	if c.logs != nil && f.sample.root != nil {
		stats.Logs = fsStats(f.sample.time, *f.sample.root, c.logs.bytes, c.logs.inodes)
	}
	return stats
}

// disk adds what a pod has on disk: its volumes, and the sum of what counts as ephemeral storage.
func (f form) disk(p *podSample, stats *statsapi.PodStats) {
	sum := p.disk.other
	for _, v := range p.disk.volumes {
		one := statsapi.VolumeStats{Name: v.Name, FsStats: *fsStats(p.disk.time, v.Filesystem, v.Bytes, v.Inodes)}
		if v.Claim != "" {
			one.PVCRef = &statsapi.PVCReference{Name: v.Claim, Namespace: p.pod.Namespace}
		}
		stats.VolumeStats = append(stats.VolumeStats, one)
		if v.Local {
			sum.add(usedDisk{v.Bytes, v.Inodes})
		}
	}
	for _, c := range p.containers {
		if c.layer != nil {
			sum.add(c.layer.usedDisk)
		}
	}
	for _, logs := range p.disk.logs {
		sum.add(logs)
	}
	if f.sample.root != nil {
		stats.EphemeralStorage = fsStats(p.disk.time, *f.sample.root, sum.bytes, sum.inodes)
	}
}

func cpuStats(m *measured) *statsapi.CPUStats {
	if !m.HasCPU {
		return nil
	}
	return &statsapi.CPUStats{Time: metav1.NewTime(m.Time), UsageNanoCores: m.nanoCore, UsageCoreNanoSeconds: new(uint64(m.CPU))}
}

func memoryStats(m *measured) *statsapi.MemoryStats {
	if !m.HasMemory {
		return nil
	}
	stats := &statsapi.MemoryStats{
		Time: metav1.NewTime(m.Time), UsageBytes: new(m.Memory), WorkingSetBytes: new(m.WorkingSet), RSSBytes: new(m.RSS),
		PageFaults: new(m.PageFaults), MajorPageFaults: new(m.MajorPageFaults),
	}
	if m.MemoryLimit > 0 {
		stats.AvailableBytes = new(m.MemoryLimit - min(m.MemoryLimit, m.WorkingSet))
	}
	return stats
}

func swapStats(m *measured) *statsapi.SwapStats {
	if !m.HasMemory {
		return nil
	}
	return &statsapi.SwapStats{Time: metav1.NewTime(m.Time), SwapUsageBytes: new(m.Swap)}
}

func fsStats(at time.Time, fs machine.Filesystem, used, inodes uint64) *statsapi.FsStats {
	return &statsapi.FsStats{
		Time: metav1.NewTime(at), CapacityBytes: new(fs.Capacity), AvailableBytes: new(fs.Available), UsedBytes: new(used),
		Inodes: new(fs.Inodes), InodesFree: new(fs.InodesFree), InodesUsed: new(inodes),
	}
}

// defaultInterface is whose counters stand for all.
const defaultInterface = "eth0"

func networkStats(at time.Time, interfaces []networkInterface) *statsapi.NetworkStats {
	if len(interfaces) == 0 {
		return nil
	}
	stats := &statsapi.NetworkStats{Time: metav1.NewTime(at)}
	for _, i := range interfaces {
		one := statsapi.InterfaceStats{Name: i.name, RxBytes: new(i.rxBytes), RxErrors: new(i.rxErrors), TxBytes: new(i.txBytes), TxErrors: new(i.txErrors)}
		stats.Interfaces = append(stats.Interfaces, one)
		if i.name == defaultInterface {
			stats.InterfaceStats = one
		}
	}
	return stats
}
