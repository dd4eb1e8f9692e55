package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QOSClass is the quality-of-service class of a pod after defaulting: Guaranteed when every container (or the pod as
// a whole, where pod-level resources are given) has cpu and memory limits equal to its requests, BestEffort when
// nothing asks for cpu or memory, else Burstable.
func QOSClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	var all []corev1.ResourceRequirements
	if r := spec.Resources; r != nil && (len(r.Limits) > 0 || len(r.Requests) > 0) {
		all = append(all, *r)
	} else {
		for _, c := range spec.InitContainers {
			all = append(all, c.Resources)
		}
		for _, c := range spec.Containers {
			all = append(all, c.Resources)
		}
	}
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	guaranteed := true
	for _, r := range all {
		sumComputeResources(requests, r.Requests)
		if sumComputeResources(limits, r.Limits) < 2 {
			guaranteed = false
		}
	}
	if len(requests) == 0 && len(limits) == 0 {
		return corev1.PodQOSBestEffort
	}
	for name, limit := range limits {
		if request, ok := requests[name]; !ok || request.Cmp(limit) != 0 {
			guaranteed = false
		}
	}
	if guaranteed && len(requests) == len(limits) {
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// sumComputeResources adds cpu and memory of list to total, skipping zero, and says how many of the two it found.
func sumComputeResources(total, list corev1.ResourceList) (found int) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		quantity, ok := list[name]
		if !ok || quantity.Cmp(resource.Quantity{}) <= 0 {
			continue
		}
		found++
		sum := total[name].DeepCopy()
		sum.Add(quantity)
		total[name] = sum
	}
	return found
}
