package cri

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

// CPU shares and quotas, upstream's (pkg/kubelet/cm/helpers_linux.go).
const (
	minShares   = 2
	maxShares   = 262144
	quotaPeriod = 100_000 // µs
	minQuota    = 1000    // µs
)

// cgroupSupport is what the node's cgroups can limit.
type cgroupSupport struct {
	unified   bool     // version 2
	swap      bool     // swap can be limited
	hugepages []string // sizes as cgroups call them: "2MB"
}

func findCgroupSupport() cgroupSupport {
	const root = "/sys/fs/cgroup"
	var found cgroupSupport
	if _, err := os.Stat(root + "/cgroup.controllers"); err == nil {
		found.unified = true
		swaps, _ := filepath.Glob(root + "/*/memory.swap.max") // the pattern is well formed
		found.swap = len(swaps) > 0
	} else if _, err := os.Stat(root + "/memory/memory.memsw.limit_in_bytes"); err == nil {
		found.swap = true
	}
	sizes, _ := os.ReadDir("/sys/kernel/mm/hugepages") // a kernel without has none
	for _, s := range sizes {
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(s.Name(), "hugepages-"), "kB"), 10, 64)
		if err == nil {
			found.hugepages = append(found.hugepages, pageSize(kilobytes<<10))
		}
	}
	return found
}

// pageSize writes a size as cgroups do.
func pageSize(size int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	at := 0
	for ; size%1024 == 0 && size > 0 && at < len(units)-1; at++ {
		size /= 1024
	}
	return strconv.FormatInt(size, 10) + units[at]
}

// containerResources are upstream's generateLinuxContainerResources.
func (r *Runtime) containerResources(pod *corev1.Pod, c *corev1.Container) *runtimeapi.LinuxContainerResources {
	requests, limits := c.Resources.Requests, c.Resources.Limits
	var request *resource.Quantity
	if asked, found := requests[corev1.ResourceCPU]; found {
		request = &asked
	}
	linux := r.linuxResources(request, limits.Cpu(), limits.Memory())
	linux.OomScoreAdj = oomScore(pod, c, r.config.MemoryCapacity)
	linux.HugepageLimits = r.hugepages(limits)
	if r.cgroups.unified {
		linux.Unified = map[string]string{"memory.oom.group": "1"} // a container is killed as a whole
	}
	if r.cgroups.swap {
		switch {
		case r.cgroups.unified:
			linux.Unified["memory.swap.max"] = "0"
		case linux.MemoryLimitInBytes > 0:
			linux.MemorySwapLimitInBytes = linux.MemoryLimitInBytes
		}
	}
	return linux
}

// linuxResources turns amounts into shares and quotas; a nil request stands for the limit.
func (r *Runtime) linuxResources(request, limit, memory *resource.Quantity) *runtimeapi.LinuxContainerResources {
	linux := &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: memory.Value()}
	if request == nil && !limit.IsZero() {
		request = limit
	}
	linux.CpuShares = minShares
	if request != nil {
		linux.CpuShares = min(max(request.MilliValue()*1024/1000, minShares), maxShares)
	}
	if !r.config.NoCPUQuota {
		linux.CpuPeriod = quotaPeriod
		if milli := limit.MilliValue(); milli > 0 {
			linux.CpuQuota = max(milli*quotaPeriod/1000, minQuota)
		}
	}
	return linux
}

// hugepages limits every size that the node has, to nothing where the container has no limit.
func (r *Runtime) hugepages(limits corev1.ResourceList) []*runtimeapi.HugepageLimit {
	if len(r.cgroups.hugepages) == 0 {
		return nil
	}
	asked := map[string]uint64{}
	for name, amount := range limits {
		size, isHuge := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
		if !isHuge {
			continue
		}
		if quantity, err := validate.ParseQuantity(size); err == nil {
			asked[pageSize(quantity.Value())] = uint64(amount.Value())
		}
	}
	all := make([]*runtimeapi.HugepageLimit, 0, len(r.cgroups.hugepages))
	for _, size := range r.cgroups.hugepages {
		all = append(all, &runtimeapi.HugepageLimit{PageSize: size, Limit: asked[size]})
	}
	return all
}

// sandboxResources are those of all containers together, for runtimes that size a machine by them.
func (r *Runtime) sandboxResources(pod *corev1.Pod) *runtimeapi.LinuxContainerResources {
	options := helpers.PodResourcesOptions{ExcludeOverhead: true}
	requests, limits := helpers.PodRequests(pod, options), helpers.PodLimits(pod, options)
	return r.linuxResources(requests.Cpu(), limits.Cpu(), limits.Memory())
}

func (r *Runtime) overhead(pod *corev1.Pod) *runtimeapi.LinuxContainerResources {
	if pod.Spec.Overhead == nil {
		return &runtimeapi.LinuxContainerResources{}
	}
	cpu, memory := pod.Spec.Overhead.Cpu(), pod.Spec.Overhead.Memory()
	return r.linuxResources(cpu, cpu, memory)
}

// Scores say whose processes the kernel kills first when memory runs out: -1000 to 1000. Upstream's pkg/kubelet/qos/policy.go.
const (
	guaranteedScore = -997
	bestEffortScore = 1000
)

// oomScore is the score of a container on a node with capacity bytes of memory.
func oomScore(pod *corev1.Pod, c *corev1.Container, capacity int64) int64 {
	if pod.Spec.PriorityClassName == "system-node-critical" {
		return guaranteedScore
	}
	switch podspec.QOSClass(&pod.Spec) {
	case corev1.PodQOSGuaranteed:
		return guaranteedScore
	case corev1.PodQOSBestEffort:
		return bestEffortScore
	}
	share := unclaimedShare(pod)
	score := burstableScore(c, share, capacity)
	if containerType(pod, c.Name) == "init" && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		first := int64(guaranteedScore) // of those it serves
		for i := range pod.Spec.Containers {
			first = max(first, burstableScore(&pod.Spec.Containers[i], share, capacity))
		}
		score = min(score, first) // a sidecar does not go before all of them
	}
	return score
}

// unclaimedShare is a container's share, in bytes, of the memory that the pod asks for as a whole and no container for itself (KEP-2837).
func unclaimedShare(pod *corev1.Pod) int64 {
	if pod.Spec.Resources == nil {
		return 0
	}
	whole, found := pod.Spec.Resources.Requests[corev1.ResourceMemory]
	if !found {
		return 0
	}
	claimed := helpers.PodRequests(pod, helpers.PodResourcesOptions{ExcludeOverhead: true, SkipPodLevelResources: true})
	return max(0, whole.Value()-claimed.Memory().Value()) / int64(len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
}

// burstableScore is the lower the more of the node's memory a container has asked for, by itself and by its share of the pod's.
func burstableScore(c *corev1.Container, share, capacity int64) int64 {
	if capacity <= 0 {
		return bestEffortScore - 1
	}
	score := 1000 - 1000*(c.Resources.Requests.Memory().Value()+share)/capacity
	return min(max(score, 1000+guaranteedScore), bestEffortScore-1)
}
