package plugins

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"vigil/scheduler/nodecache"
)

func resourcesFit(pod *nodecache.Pod, node *nodecache.Node) []string {
	var reasons []string
	lacks := func(name string, want, used, has int64) {
		if want > 0 && want > has-used {
			reasons = append(reasons, name)
		}
	}
	want, used, has := &pod.Requests, &node.Requested, &node.Allocatable
	if used.Pods+want.Pods > has.Pods {
		reasons = append(reasons, "Too many pods")
	}
	lacks("Insufficient cpu", want.MilliCPU, used.MilliCPU, has.MilliCPU)
	lacks("Insufficient memory", want.Memory, used.Memory, has.Memory)
	lacks("Insufficient ephemeral-storage", want.EphemeralStorage, used.EphemeralStorage, has.EphemeralStorage)
	if len(want.Scalar) > 0 {
		names := make([]corev1.ResourceName, 0, len(want.Scalar))
		for name := range want.Scalar {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			lacks("Insufficient "+string(name), want.Scalar[name], used.Scalar[name], has.Scalar[name])
		}
	}
	return reasons
}

// leastAllocated prefers nodes with much left: the mean over cpu and memory of the share that would be free.
func leastAllocated(pod *nodecache.Pod, node *nodecache.Node) int64 {
	free := func(used, want, has int64) int64 {
		if has <= 0 || used+want > has {
			return 0
		}
		return (has - used - want) * MaxScore / has
	}
	cpu := free(node.NonZero.MilliCPU, pod.NonZero.MilliCPU, node.Allocatable.MilliCPU)
	memory := free(node.NonZero.Memory, pod.NonZero.Memory, node.Allocatable.Memory)
	return (cpu + memory) / 2
}

// balancedAllocation prefers nodes on which cpu and memory would be used to the same degree.
func balancedAllocation(pod *nodecache.Pod, node *nodecache.Node) int64 {
	share := func(used, want, has int64) float64 {
		if has <= 0 {
			return 1
		}
		return math.Min(1, float64(used+want)/float64(has))
	}
	cpu := share(node.NonZero.MilliCPU, pod.NonZero.MilliCPU, node.Allocatable.MilliCPU)
	memory := share(node.NonZero.Memory, pod.NonZero.Memory, node.Allocatable.Memory)
	// The standard deviation of two values is half their distance.
	return int64((1 - math.Abs(cpu-memory)/2) * MaxScore)
}
