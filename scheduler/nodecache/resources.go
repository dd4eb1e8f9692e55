package nodecache

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Requests for pods that ask for nothing, so that they spread too. They count for scores only, never for fitting.
// Upstream: scheduler/util/pod_resources.go.
const (
	defaultMilliCPU = 100
	defaultMemory   = 200 << 20
)

// Resources is an amount of everything a node can give. CPU is in thousandths of a core, memory and storage in bytes.
type Resources struct {
	MilliCPU         int64
	Memory           int64
	EphemeralStorage int64
	Pods             int64
	Scalar           map[corev1.ResourceName]int64 // huge pages and extended resources; nil when there are none
}

// mostOfOne is the largest amount that is counted for one pod or node: what is larger counts as this much, more than any machine has. So
// a thousand pods that ask for all there can be do not make the sum of a node wrap around.
const mostOfOne = 1 << 53

// ResourcesOf converts an API resource list.
func ResourcesOf(list corev1.ResourceList) Resources {
	var r Resources
	for name, quantity := range list {
		switch name {
		case corev1.ResourceCPU:
			r.MilliCPU = min(quantity.MilliValue(), mostOfOne)
		case corev1.ResourceMemory:
			r.Memory = min(quantity.Value(), mostOfOne)
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = min(quantity.Value(), mostOfOne)
		case corev1.ResourcePods:
			r.Pods = min(quantity.Value(), mostOfOne)
		default:
			if r.Scalar == nil {
				r.Scalar = map[corev1.ResourceName]int64{}
			}
			r.Scalar[name] = min(quantity.Value(), mostOfOne)
		}
	}
	return r
}

// Of is the amount of one resource, in the unit that it has here.
func (r *Resources) Of(name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourceCPU:
		return r.MilliCPU
	case corev1.ResourceMemory:
		return r.Memory
	case corev1.ResourceEphemeralStorage:
		return r.EphemeralStorage
	case corev1.ResourcePods:
		return r.Pods
	}
	return r.Scalar[name]
}

func (r *Resources) add(o Resources, sign int64) {
	r.MilliCPU += sign * o.MilliCPU
	r.Memory += sign * o.Memory
	r.EphemeralStorage += sign * o.EphemeralStorage
	r.Pods += sign * o.Pods
	if len(o.Scalar) == 0 {
		return
	}
	if r.Scalar == nil {
		r.Scalar = map[corev1.ResourceName]int64{}
	} else {
		r.Scalar = maps.Clone(r.Scalar)
	}
	for name, value := range o.Scalar {
		r.Scalar[name] += sign * value
	}
}

// podRequests returns what the pod asks for, and the same with defaults for containers that ask for no cpu or memory.
func podRequests(pod *corev1.Pod) (requests, nonZero Resources) {
	requests = ResourcesOf(resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true}))
	requests.Pods = 1
	nonZero = ResourcesOf(resource.PodRequests(pod, resource.PodResourcesOptions{
		UseStatusResources: true,
		NonMissingContainerRequests: corev1.ResourceList{
			corev1.ResourceCPU:    *resourceMilli(defaultMilliCPU),
			corev1.ResourceMemory: *resourceBytes(defaultMemory),
		},
	}))
	return requests, nonZero
}
