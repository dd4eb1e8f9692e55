package eviction

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// observation is how much is left of a signal.
type observation struct {
	available, capacity *resource.Quantity
	time                time.Time // when it was measured
}

// observations reads a summary. A signal that was not measured is not in the result.
func observations(summary *statsapi.Summary) map[Signal]observation {
	found := map[Signal]observation{}
	observe := func(signal Signal, available, capacity *uint64, at time.Time, format resource.Format) {
		if available != nil && capacity != nil {
			found[signal] = observation{resource.NewQuantity(int64(*available), format), resource.NewQuantity(int64(*capacity), format), at}
		}
	}
	memory := func(signal Signal, m *statsapi.MemoryStats) {
		if m != nil && m.AvailableBytes != nil && m.WorkingSetBytes != nil {
			capacity := *m.AvailableBytes + *m.WorkingSetBytes
			observe(signal, m.AvailableBytes, &capacity, m.Time.Time, resource.BinarySI)
		}
	}
	disk := func(available, free Signal, fs *statsapi.FsStats) {
		if fs != nil {
			observe(available, fs.AvailableBytes, fs.CapacityBytes, fs.Time.Time, resource.BinarySI)
			if fs.Inodes != nil && *fs.Inodes > 0 { // btrfs and others count none
				observe(free, fs.InodesFree, fs.Inodes, fs.Time.Time, resource.DecimalSI)
			}
		}
	}
	memory(MemoryAvailable, summary.Node.Memory)
	for i := range summary.Node.SystemContainers {
		if c := &summary.Node.SystemContainers[i]; c.Name == statsapi.SystemContainerPods {
			memory(AllocatableMemoryAvailable, c.Memory)
		}
	}
	disk(NodeFsAvailable, NodeFsInodesFree, summary.Node.Fs)
	if r := summary.Node.Runtime; r != nil {
		disk(ImageFsAvailable, ImageFsInodesFree, r.ImageFs)
		disk(ContainerFsAvailable, ContainerFsInodesFree, r.ContainerFs)
	}
	if r := summary.Node.Rlimit; r != nil && r.MaxPID != nil && r.NumOfRunningProcesses != nil {
		found[PIDAvailable] = observation{
			resource.NewQuantity(*r.MaxPID-*r.NumOfRunningProcesses, resource.DecimalSI), resource.NewQuantity(*r.MaxPID, resource.DecimalSI), r.Time.Time,
		}
	}
	return found
}

// podStats finds the figures of a pod; nil: there are none.
type podStats func(*corev1.Pod) *statsapi.PodStats

func statsOf(summary *statsapi.Summary) podStats {
	byUID := map[string]*statsapi.PodStats{}
	for i := range summary.Pods {
		byUID[summary.Pods[i].PodRef.UID] = &summary.Pods[i]
	}
	return func(pod *corev1.Pod) *statsapi.PodStats { return byUID[string(pod.UID)] }
}
