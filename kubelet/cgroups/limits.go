package cgroups

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resources "k8s.io/component-helpers/resource"

	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

// The kernel's bounds and upstream's defaults (pkg/kubelet/cm/helpers_linux.go).
const (
	minShares     = 2
	maxShares     = 262144
	sharesPerCPU  = 1024
	minQuota      = 1000 // µs
	defaultPeriod = 100 * time.Millisecond
)

// unlimited lifts a limit.
const unlimited = -1

// Limits is what a group may use. 0 leaves a value as it is, -1 lifts a limit.
type Limits struct {
	CPUShares int64            // weight against siblings: 1024 is that of a CPU
	CPUQuota  int64            // µs of CPU time in a period
	CPUPeriod int64            // µs
	Memory    int64            // bytes
	Pids      int64            // processes and threads
	Hugepages map[string]int64 // bytes by page size as resources name it, "2Mi"; nil: as they are
}

func (l Limits) equal(other Limits) bool {
	return l.CPUShares == other.CPUShares && l.CPUQuota == other.CPUQuota && l.CPUPeriod == other.CPUPeriod && l.Memory == other.Memory &&
		l.Pids == other.Pids && maps.Equal(l.Hugepages, other.Hugepages)
}

// Shares converts CPU time per second, in thousandths, to cpu.shares.
func Shares(milliCPU int64) int64 {
	return min(max(milliCPU*sharesPerCPU/1000, minShares), maxShares)
}

// Weight converts cpu.shares to cpu.weight of cgroup v2, [2, 262144] to [1, 10000], as KEP-2254 and upstream's kubelet do. runc since 1.3.2
// uses another curve for containers, through 1024 and 100; the two never meet, since a kubelet's groups and containers are no siblings.
func Weight(shares int64) int64 {
	return 1 + (min(max(shares, minShares), maxShares)-minShares)*9999/262142
}

// Quota converts CPU time per second, in thousandths, to µs in a period of so many µs; 0 is no limit.
func Quota(milliCPU, period int64) int64 {
	if milliCPU == 0 {
		return unlimited
	}
	return max(milliCPU*period/1000, minQuota)
}

// limitsOf is what all containers of a pod together may use, as upstream's ResourceConfigForPod: what is requested decides on the
// shares; there is a limit where every container has one, or the pod as a whole.
func (t *Tree) limitsOf(pod *corev1.Pod) Limits {
	period := t.config.CPUCFSQuotaPeriod.Microseconds()
	l := Limits{CPUShares: minShares, CPUQuota: unlimited, CPUPeriod: period, Memory: unlimited, Pids: unlimited, Hugepages: map[string]int64{}}
	if t.config.PodPidsLimit > 0 {
		l.Pids = t.config.PodPidsLimit
	}
	limits := resources.PodLimits(pod, resources.PodResourcesOptions{})
	for name, quantity := range limits {
		if size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix); ok {
			l.Hugepages[size] = quantity.Value()
		}
	}
	if podspec.QOSClass(&pod.Spec) == corev1.PodQOSBestEffort {
		return l
	}
	l.CPUShares = Shares(requestedCPU(pod))
	if !t.config.NoCPUCFSQuota && limitsAll(pod, corev1.ResourceCPU) {
		l.CPUQuota = Quota(limits.Cpu().MilliValue(), period)
	}
	if limitsAll(pod, corev1.ResourceMemory) {
		l.Memory = limits.Memory().Value()
	}
	return l
}

// requestedCPU is what a pod asks for, in thousandths of a CPU.
func requestedCPU(pod *corev1.Pod) int64 {
	requests := resources.PodRequests(pod, resources.PodResourcesOptions{})
	return requests.Cpu().MilliValue()
}

// limitsAll says whether the pod, or else each of its containers, has a limit.
func limitsAll(pod *corev1.Pod, name corev1.ResourceName) bool {
	if r := pod.Spec.Resources; r != nil {
		if limit, ok := r.Limits[name]; ok && !limit.IsZero() {
			return true
		}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if limit, ok := containers[i].Resources.Limits[name]; !ok || limit.IsZero() {
				return false
			}
		}
	}
	return true
}

// nodeLimits is what all pods together may use.
func nodeLimits(allocatable corev1.ResourceList) Limits {
	l := Limits{Memory: unlimited, Pids: unlimited}
	if cpu, ok := allocatable[corev1.ResourceCPU]; ok {
		l.CPUShares = Shares(cpu.MilliValue())
	}
	if memory, ok := allocatable[corev1.ResourceMemory]; ok {
		l.Memory = memory.Value()
	}
	if pids, ok := allocatable["pid"]; ok && pids.Value() > 0 {
		l.Pids = pids.Value()
	}
	return l
}

// pageSize reads a controller's name of a page size: "2MB" is 2 MiB.
func pageSize(name string) (bytes int64, ok bool) {
	if !strings.HasSuffix(name, "B") {
		return 0, false
	}
	quantity, err := resource.ParseQuantity(strings.TrimSuffix(name, "B") + "i")
	return quantity.Value(), err == nil
}

// quantityOf reads the page size of a resource: "2Mi" of hugepages-2Mi.
func quantityOf(size string) (bytes int64, ok bool) {
	quantity, err := validate.ParseQuantity(size)
	return quantity.Value(), err == nil
}
