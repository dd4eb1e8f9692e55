package eviction

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resources "k8s.io/component-helpers/resource"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// part is something that a pod has on disk.
type part uint8

const (
	layers  part = 1 << iota // writable layers
	logs                     // of containers
	volumes                  // that live on the node's disk
)

// rank orders pods: those that are evicted first come first. Pods that have no figures come before all others.
func rank(pods []*corev1.Pod, signal Signal, layout Layout, stats podStats) {
	switch name := signals[signal].resource; name {
	case corev1.ResourceMemory:
		sortPods(pods, stats, func(p *statsapi.PodStats, _ *corev1.Pod) resource.Quantity { return memoryOf(p.Memory) }, name)
	case pids:
		slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
			sa, sb := stats(a), stats(b)
			return cmp.Or(cmp.Compare(priority(a), priority(b)), boolsFirst(sa == nil, sb == nil), cmp.Compare(processes(sb), processes(sa)))
		})
	default:
		parts := partsOn(signal, layout)
		sortPods(pods, stats, func(p *statsapi.PodStats, pod *corev1.Pod) resource.Quantity { return diskOf(p, pod, parts, name) }, name)
	}
}

// sortPods orders by whether a pod uses more than it asked for, then by its priority, then by how much more.
func sortPods(pods []*corev1.Pod, stats podStats, usage func(*statsapi.PodStats, *corev1.Pod) resource.Quantity, name corev1.ResourceName) {
	type figures struct {
		unknown, exceeds bool
		over             resource.Quantity
	}
	of := make(map[*corev1.Pod]figures, len(pods))
	for _, pod := range pods {
		s := stats(pod)
		if s == nil {
			of[pod] = figures{unknown: true}
			continue
		}
		over := usage(s, pod)
		over.Sub(requested(pod, name))
		of[pod] = figures{exceeds: over.Sign() > 0, over: over}
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		fa, fb := of[a], of[b]
		return cmp.Or(boolsFirst(fa.unknown, fb.unknown), boolsFirst(fa.exceeds, fb.exceeds), cmp.Compare(priority(a), priority(b)), fb.over.Cmp(fa.over))
	})
}

func requested(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	return resources.PodRequests(pod, resources.PodResourcesOptions{})[name]
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

func processes(stats *statsapi.PodStats) uint64 {
	if stats == nil || stats.ProcessStats == nil || stats.ProcessStats.ProcessCount == nil {
		return 0
	}
	return *stats.ProcessStats.ProcessCount
}

func memoryOf(m *statsapi.MemoryStats) resource.Quantity {
	if m == nil || m.WorkingSetBytes == nil {
		return *resource.NewQuantity(0, resource.BinarySI)
	}
	return *resource.NewQuantity(int64(*m.WorkingSetBytes), resource.BinarySI)
}

// partsOn is what pods have on the file system of a signal.
func partsOn(signal Signal, layout Layout) part {
	node := signal == NodeFsAvailable || signal == NodeFsInodesFree
	container := signal == ContainerFsAvailable || signal == ContainerFsInodesFree
	switch {
	case !layout.SeparateImages:
		return layers | logs | volumes
	case !layout.SeparateLayers && node:
		return logs | volumes
	case !layout.SeparateLayers:
		return layers
	case node || container:
		return layers | logs | volumes
	}
	return 0 // images apart from everything: they are nobody's
}

// diskOf is what a pod has on disk, in bytes or inodes.
func diskOf(stats *statsapi.PodStats, pod *corev1.Pod, parts part, name corev1.ResourceName) resource.Quantity {
	sum := uint64(0)
	add := func(fs *statsapi.FsStats) {
		switch {
		case fs == nil:
		case name == inodes && fs.InodesUsed != nil:
			sum += *fs.InodesUsed
		case name != inodes && fs.UsedBytes != nil:
			sum += *fs.UsedBytes
		}
	}
	for i := range stats.Containers {
		if parts&layers != 0 {
			add(stats.Containers[i].Rootfs)
		}
		if parts&logs != 0 {
			add(stats.Containers[i].Logs)
		}
	}
	if parts&volumes != 0 {
		for i := range stats.VolumeStats {
			if localVolume(pod, stats.VolumeStats[i].Name) {
				add(&stats.VolumeStats[i].FsStats)
			}
		}
	}
	if name == inodes {
		return *resource.NewQuantity(int64(sum), resource.DecimalSI)
	}
	return *resource.NewQuantity(int64(sum), resource.BinarySI)
}

// localVolume says whether a volume takes from the node's disk.
func localVolume(pod *corev1.Pod, name string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.Name == name {
			return v.HostPath != nil || v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault || v.ConfigMap != nil || v.DownwardAPI != nil || v.GitRepo != nil
		}
	}
	return false
}
