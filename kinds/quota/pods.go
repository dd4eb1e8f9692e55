package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	resourcehelper "k8s.io/component-helpers/resource"

	"vigil/kinds/podspec"
)

var pods = Evaluator{
	Resource: schema.GroupResource{Resource: "pods"},
	measure:  podUsage,
	owns:     podOwns,
	inScope:  podInScope,
	constraints: func(obj runtime.Object, names []corev1.ResourceName) error {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil
		}
		return podConstraints(pod, names)
	},
	updates: true,
}

// podNames are the names that a quota may have for pods, besides those with a prefix.
var podNames = []corev1.ResourceName{
	corev1.ResourcePods,
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
}

// demanded are the names that oblige pods to say how much they use: a mistake of old that stays.
var demanded = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

func podOwns(name corev1.ResourceName) bool {
	s := string(name)
	switch {
	case slices.Contains(podNames, name),
		strings.HasPrefix(s, corev1.ResourceHugePagesPrefix), strings.HasPrefix(s, corev1.ResourceRequestsHugePagesPrefix):
		return true
	case strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix):
		return extended(strings.TrimPrefix(s, corev1.DefaultResourceRequestsPrefix))
	}
	return false
}

// extended says that a name is that of a device, not of one of Kubernetes' own resources.
func extended(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
}

// podUsage is what a pod requests and may use. One that has ended uses nothing, nor does one whose time to end is over.
func podUsage(obj runtime.Object, now time.Time) corev1.ResourceList {
	pod, ok := obj.(*corev1.Pod)
	if !ok || !Charged(pod, now) {
		return corev1.ResourceList{}
	}
	opts := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	return computed(resourcehelper.PodRequests(pod, opts), resourcehelper.PodLimits(pod, opts))
}

// Charged says whether a pod still uses anything but its place in the store.
func Charged(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return true
	}
	return !now.After(pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second))
}

// computed names requests and limits as quotas do.
func computed(requests, limits corev1.ResourceList) corev1.ResourceList {
	use := corev1.ResourceList{corev1.ResourcePods: one()}
	for name, quantity := range requests {
		switch {
		case name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage,
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			use[name] = quantity
			use[corev1.DefaultResourceRequestsPrefix+name] = quantity
		case extended(string(name)):
			use[corev1.DefaultResourceRequestsPrefix+name] = quantity
		}
	}
	for name, quantity := range limits {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage {
			use["limits."+name] = quantity
		}
	}
	return use
}

// podConstraints refuses a pod with a container that does not name what a quota counts.
func podConstraints(pod *corev1.Pod, names []corev1.ResourceName) error {
	missing := map[corev1.ResourceName]map[string]bool{}
	check := func(c *corev1.Container) {
		use := computed(c.Resources.Requests, c.Resources.Limits)
		for _, name := range names {
			if _, ok := use[name]; ok || !slices.Contains(demanded, name) {
				continue
			}
			if missing[name] == nil {
				missing[name] = map[string]bool{}
			}
			missing[name][c.Name] = true
		}
	}
	if wholePod(pod, names) {
		return nil
	}
	for i := range pod.Spec.Containers {
		check(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		check(&pod.Spec.InitContainers[i])
	}
	if len(missing) == 0 {
		return nil
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(slices.Sorted(maps.Keys(missing[name])), ",")))
	}
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}

// wholePod says that the pod itself names all that is demanded, so that its containers need not.
func wholePod(pod *corev1.Pod, names []corev1.ResourceName) bool {
	if pod.Spec.Resources == nil {
		return false
	}
	use := computed(pod.Spec.Resources.Requests, pod.Spec.Resources.Limits)
	return !slices.ContainsFunc(names, func(name corev1.ResourceName) bool {
		_, ok := use[name]
		return !ok && slices.Contains(demanded, name)
	})
}

func podInScope(obj runtime.Object, s corev1.ScopedResourceSelectorRequirement) bool {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return false
	}
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil || *pod.Spec.ActiveDeadlineSeconds < 0
	case corev1.ResourceQuotaScopeBestEffort:
		return podspec.QOSClass(&pod.Spec) == corev1.PodQOSBestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return podspec.QOSClass(&pod.Spec) != corev1.PodQOSBestEffort
	case corev1.ResourceQuotaScopePriorityClass:
		return selects(s, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return reachesNamespaces(pod.Spec.Affinity)
	}
	return false
}

// reachesNamespaces says that an affinity looks at pods of other namespaces.
func reachesNamespaces(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	reaches := func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil }
	weighted := func(t corev1.WeightedPodAffinityTerm) bool { return reaches(t.PodAffinityTerm) }
	if p := a.PodAffinity; p != nil {
		if slices.ContainsFunc(p.RequiredDuringSchedulingIgnoredDuringExecution, reaches) || slices.ContainsFunc(p.PreferredDuringSchedulingIgnoredDuringExecution, weighted) {
			return true
		}
	}
	if p := a.PodAntiAffinity; p != nil {
		return slices.ContainsFunc(p.RequiredDuringSchedulingIgnoredDuringExecution, reaches) || slices.ContainsFunc(p.PreferredDuringSchedulingIgnoredDuringExecution, weighted)
	}
	return false
}
