package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// legacyInitAnnotations carried init containers before they had a field. They are removed from pods and templates.
var legacyInitAnnotations = []string{
	"pod.beta.kubernetes.io/init-containers",
	"pod.alpha.kubernetes.io/init-containers",
	"pod.beta.kubernetes.io/init-container-statuses",
	"pod.alpha.kubernetes.io/init-container-statuses",
}

// DefaultPod fills in the defaults of a pod: those of every spec, and those that templates leave to the pods made
// from them (service links, requests taken from limits, host ports).
func DefaultPod(pod *corev1.Pod) {
	dropLegacyAnnotations(pod.Annotations)
	spec := &pod.Spec
	Default(spec)
	if spec.EnableServiceLinks == nil {
		spec.EnableServiceLinks = ptr.To(corev1.DefaultEnableServiceLinks)
	}
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			requestsFromLimits(&c.Resources)
			if spec.HostNetwork {
				defaultHostPorts(c.Ports)
			}
		}
	}
	if spec.Resources != nil {
		defaultPodResources(pod)
	}
	syncPodIPs(&pod.Status)
}

// syncPodIPs keeps the address from before dual stack and the first of the list the same. The single one wins: a
// client that knows no list changes only that.
func syncPodIPs(status *corev1.PodStatus) {
	switch {
	case status.PodIP == "" && len(status.PodIPs) > 0:
		status.PodIP = status.PodIPs[0].IP
	case status.PodIP != "" && (len(status.PodIPs) == 0 || status.PodIPs[0].IP != status.PodIP):
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	}
}

// DefaultTemplate fills in the defaults of a pod template.
func DefaultTemplate(template *corev1.PodTemplateSpec) {
	dropLegacyAnnotations(template.Annotations)
	Default(&template.Spec)
}

// Default fills in what templates and pods have in common.
func Default(spec *corev1.PodSpec) {
	setIfEmpty(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setIfEmpty(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setIfEmpty(&spec.SchedulerName, corev1.DefaultSchedulerName)
	setIfEmpty(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	if spec.TerminationGracePeriodSeconds == nil {
		spec.TerminationGracePeriodSeconds = ptr.To(int64(corev1.DefaultTerminationGracePeriodSeconds))
	}
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	RoundUp(spec.Overhead)
	if spec.Resources != nil {
		RoundUp(spec.Resources.Limits)
		RoundUp(spec.Resources.Requests)
	}
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		c := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		defaultContainer(&c)
		spec.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(c)
	}
}

func dropLegacyAnnotations(annotations map[string]string) {
	for _, key := range legacyInitAnnotations {
		delete(annotations, key)
	}
}

func setIfEmpty[T ~string](field *T, value T) {
	if *field == "" {
		*field = value
	}
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// RoundUp brings quantities to whole thousandths, the finest that the API stores.
func RoundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

func requestsFromLimits(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, given := r.Requests[name]; given {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = limit.DeepCopy()
	}
}

// defaultPodResources completes pod-level resources that were given in part: hugepage limits from the containers'
// limits, requests from the containers' requests, and what is missing then from the pod's own limits.
func defaultPodResources(pod *corev1.Pod) {
	r := pod.Spec.Resources
	fill := func(list *corev1.ResourceList, from corev1.ResourceList, wanted func(corev1.ResourceName) bool) {
		for name, quantity := range from {
			if _, given := (*list)[name]; given || !wanted(name) {
				continue
			}
			if *list == nil {
				*list = corev1.ResourceList{}
			}
			(*list)[name] = quantity.DeepCopy()
		}
	}
	fill(&r.Limits, resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{}), isHugePages)
	fill(&r.Requests, resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{}), func(name corev1.ResourceName) bool {
		return resourcehelper.IsSupportedPodLevelResource(name) && !isHugePages(name)
	})
	fill(&r.Requests, r.Limits, resourcehelper.IsSupportedPodLevelResource)
}
