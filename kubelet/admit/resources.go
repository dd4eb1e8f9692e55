package admit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelpers "k8s.io/component-helpers/resource"

	"vigil/kubelet"
)

// lack is a resource of which the node has not enough: thousandths of cores, bytes, pods.
type lack struct {
	resource                  corev1.ResourceName
	requested, used, capacity int64
}

func (l lack) refusal() *kubelet.Refusal {
	return &kubelet.Refusal{
		Reason: "OutOf" + string(l.resource),
		Message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
			l.resource, l.requested, l.used, l.capacity),
	}
}

// missing is how much is to be freed.
func (l lack) missing() int64 { return l.requested - (l.capacity - l.used) }

// first is the order in which what lacks is told.
var first = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// fits says what the node lacks for a pod beside others. Extended resources that the node does not know are somebody else's
// (a cluster-wide licence, a device of a DRA driver).
func fits(pod *corev1.Pod, node *corev1.Node, others []*corev1.Pod) (lacks []lack) {
	allocatable := node.Status.Allocatable
	if most := allocatable.Pods().Value(); int64(len(others))+1 > most {
		lacks = append(lacks, lack{corev1.ResourcePods, 1, int64(len(others)), most})
	}
	wanted := requests(pod)
	names := slices.Sorted(maps.Keys(wanted))
	slices.SortStableFunc(names, func(a, b corev1.ResourceName) int { return rank(a) - rank(b) })
	for _, name := range names {
		capacity, known := allocatable[name]
		if wanted[name] == 0 || !known && extended(name) {
			continue
		}
		l := lack{resource: name, requested: wanted[name], capacity: amount(name, capacity)}
		for _, other := range others {
			l.used += request(other, name)
		}
		if l.missing() > 0 {
			lacks = append(lacks, l)
		}
	}
	return lacks
}

func rank(name corev1.ResourceName) int {
	if at := slices.Index(first, name); at >= 0 {
		return at
	}
	return len(first)
}

// extended says whether a resource is neither Kubernetes' own nor hugepages.
func extended(name corev1.ResourceName) bool {
	domain, _, qualified := strings.Cut(string(name), "/")
	return qualified && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// requests is what a pod takes of the node: overhead, init containers and what was resized included.
func requests(pod *corev1.Pod) map[corev1.ResourceName]int64 {
	amounts := map[corev1.ResourceName]int64{}
	for name, quantity := range resourcehelpers.PodRequests(pod, resourcehelpers.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}) {
		amounts[name] = amount(name, quantity)
	}
	return amounts
}

func request(pod *corev1.Pod, name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return 1
	}
	return requests(pod)[name]
}

func amount(name corev1.ResourceName, quantity resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return quantity.MilliValue()
	}
	return quantity.Value()
}
