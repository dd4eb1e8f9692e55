package eviction

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resources "k8s.io/component-helpers/resource"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Reason is that of an evicted pod's status and of its event.
const Reason = "Evicted"

// Keys of annotations of the event, for programs.
const (
	offendingContainers      = "offending_containers"
	offendingContainersUsage = "offending_containers_usage"
	offendingPod             = "offending_pod"
	offendingPodUsage        = "offending_pod_usage"
	starvedResource          = "starved_resource"
)

// explain says why a pod is evicted, and which of its containers use more than they asked for.
func explain(name corev1.ResourceName, pod *corev1.Pod, stats podStats, met []Threshold, observed map[Signal]observation) (message string, annotations map[string]string) {
	var text strings.Builder
	fmt.Fprintf(&text, "The node was low on resource: %v. ", name)
	for _, t := range met {
		if o, ok := observed[t.Signal]; ok && signals[t.Signal].resource == name {
			wanted := t.Value.of(o.capacity)
			fmt.Fprintf(&text, "Threshold quantity: %v, available: %v. ", &wanted, o.available)
			break
		}
	}
	annotations = map[string]string{}
	s := stats(pod)
	if s == nil {
		return text.String(), annotations
	}
	if name == corev1.ResourceMemory && resources.IsPodLevelResourcesSet(pod) && s.Memory != nil {
		if request, ok := pod.Spec.Resources.Requests[name]; ok {
			usage := memoryOf(s.Memory)
			fmt.Fprintf(&text, "Pod %s was using %s, request is %s, has larger consumption of %v. ", pod.Name, usage.String(), request.String(), name)
			annotations[offendingPod], annotations[offendingPodUsage] = pod.Name, usage.String()
		}
	}
	var exceeding, usages []string
	for i := range s.Containers {
		container := containerOf(pod, s.Containers[i].Name)
		usage := containerUsage(name, &s.Containers[i])
		if container == nil || usage == nil {
			continue
		}
		request := container.Resources.Requests[name]
		if usage.Cmp(request) > 0 {
			fmt.Fprintf(&text, "Container %s was using %s, request is %s, has larger consumption of %v. ", container.Name, usage.String(), request.String(), name)
			exceeding, usages = append(exceeding, container.Name), append(usages, usage.String())
		}
	}
	annotations[offendingContainers], annotations[offendingContainersUsage] = strings.Join(exceeding, ","), strings.Join(usages, ",")
	annotations[starvedResource] = string(name)
	return text.String(), annotations
}

func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i]
			}
		}
	}
	return nil
}

// containerUsage is what a container uses; nil: not known.
func containerUsage(name corev1.ResourceName, stats *statsapi.ContainerStats) *resource.Quantity {
	switch {
	case name == corev1.ResourceMemory && stats.Memory != nil && stats.Memory.WorkingSetBytes != nil:
		return resource.NewQuantity(int64(*stats.Memory.WorkingSetBytes), resource.BinarySI)
	case name == corev1.ResourceEphemeralStorage && stats.Rootfs != nil && stats.Rootfs.UsedBytes != nil && stats.Logs != nil && stats.Logs.UsedBytes != nil:
		return resource.NewQuantity(int64(*stats.Rootfs.UsedBytes+*stats.Logs.UsedBytes), resource.BinarySI)
	}
	return nil
}
