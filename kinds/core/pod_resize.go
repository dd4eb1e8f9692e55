package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/podspec"
)

// preparePodResize keeps everything but resources and resize policies. When containers come, go or change places the
// object stays as it came and validation refuses it.
func preparePodResize(obj, old kinds.Object) {
	pod, oldPod := obj.(*corev1.Pod), old.(*corev1.Pod)
	containers, ok := withResources(oldPod.Spec.Containers, pod.Spec.Containers)
	inits, initsOK := withResources(oldPod.Spec.InitContainers, pod.Spec.InitContainers)
	if !ok || !initsOK {
		return
	}
	resources := pod.Spec.Resources
	pod.Spec = oldPod.Spec
	pod.Spec.Containers, pod.Spec.InitContainers = containers, inits
	pod.Spec.Resources = resources
	pod.Status = oldPod.Status
	keepMetadata(obj, old)
}

// withResources is old with the resources and resize policies of updated, or false when they are not the same
// containers in the same order.
func withResources(old, updated []corev1.Container) ([]corev1.Container, bool) {
	if !slices.EqualFunc(old, updated, func(a, b corev1.Container) bool { return a.Name == b.Name }) {
		return nil, false
	}
	out := slices.Clone(old)
	for i := range out {
		out[i].Resources, out[i].ResizePolicy = updated[i].Resources, updated[i].ResizePolicy
	}
	return out, true
}

// keepMetadata puts back the metadata that a subresource of a part of the spec does not touch.
func keepMetadata(obj, old metav1.Object) {
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetGeneration(old.GetGeneration())
	obj.SetSelfLink(old.GetSelfLink())
	obj.SetLabels(old.GetLabels())
	obj.SetAnnotations(old.GetAnnotations())
	obj.SetFinalizers(old.GetFinalizers())
	obj.SetOwnerReferences(old.GetOwnerReferences())
}

// validatePodResize lets cpu and memory of containers, sidecars and the pod as a whole change, and resize policies
// (KEP-1287), as long as the pod stays in its quality-of-service class and nothing that was set is taken away.
func validatePodResize(obj, old kinds.Object) field.ErrorList {
	pod, oldPod := obj.(*corev1.Pod), old.(*corev1.Pod)
	refuse := func(text string) field.ErrorList {
		return field.ErrorList{field.Forbidden(field.NewPath(""), text)}
	}
	switch {
	case isMirror(oldPod):
		return refuse("static pods cannot be resized")
	case oldPod.Spec.OS != nil && oldPod.Spec.OS.Name == corev1.Windows:
		return refuse("windows pods cannot be resized")
	}
	errs := podspec.ValidatePod(pod, optionsFor(oldPod))
	path := field.NewPath("spec")
	if len(pod.Spec.Containers) != len(oldPod.Spec.Containers) || len(pod.Spec.InitContainers) != len(oldPod.Spec.InitContainers) {
		return append(errs, field.Forbidden(path, "only cpu and memory resources are mutable"))
	}
	if class := podspec.QOSClass(&pod.Spec); class != podspec.QOSClass(&oldPod.Spec) {
		errs = append(errs, field.Invalid(path, class, "Pod QOS Class may not change as a result of resizing"))
	}
	if !resizeSupported(oldPod) {
		errs = append(errs, field.Forbidden(path, "Pod running on node without support for resize"))
	}
	errs = append(errs, validateResizedContainers(pod, oldPod, path)...)
	if r, oldR := pod.Spec.Resources, oldPod.Spec.Resources; oldR != nil && r != nil {
		errs = append(errs, resourcesRemoved(r, oldR, path.Child("resources"))...)
	}
	if len(errs) > 0 {
		return errs
	}
	rest := pod.Spec.DeepCopy()
	for i := range rest.Containers {
		putBackComputeResources(&rest.Containers[i], &oldPod.Spec.Containers[i])
	}
	for i := range rest.InitContainers {
		putBackComputeResources(&rest.InitContainers[i], &oldPod.Spec.InitContainers[i])
	}
	rest.Resources = withComputeOf(rest.Resources, oldPod.Spec.Resources)
	if !equality.Semantic.DeepEqual(*rest, oldPod.Spec) {
		errs = append(errs, field.Forbidden(path, "only cpu and memory resources are mutable"))
	}
	return errs
}

func validateResizedContainers(pod, old *corev1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range old.Spec.Containers {
		before, now := &old.Spec.Containers[i], &pod.Spec.Containers[i]
		errs = append(errs, resourcesRemoved(&now.Resources, &before.Resources, path.Child("containers").Index(i).Child("resources"))...)
		errs = append(errs, onlyComputeChanged(now, before, "only cpu and memory resources are mutable", path)...)
	}
	for i := range old.Spec.InitContainers {
		before, now := &old.Spec.InitContainers[i], &pod.Spec.InitContainers[i]
		if !podspec.IsSidecar(before) {
			if !equality.Semantic.DeepEqual(now, before) {
				errs = append(errs, field.Forbidden(path, "resources for non-sidecar init containers are immutable"))
			}
			continue
		}
		errs = append(errs, resourcesRemoved(&now.Resources, &before.Resources, path.Child("initContainers").Index(i).Child("resources"))...)
		errs = append(errs, onlyComputeChanged(now, before, "only cpu and memory resources for sidecar containers are mutable", path)...)
	}
	return errs
}

func onlyComputeChanged(now, before *corev1.Container, text string, path *field.Path) field.ErrorList {
	rest := now.DeepCopy()
	putBackComputeResources(rest, before)
	if equality.Semantic.DeepEqual(rest, before) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, text)}
}

// resizeSupported says whether the pod's node knows how to resize. A node that does reports the resources of running
// containers; while nothing runs it is taken to know.
func resizeSupported(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil {
			return status.Resources != nil
		}
	}
	return true
}

func resourcesRemoved(now, before *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if lacksOneOf(now.Requests, before.Requests) {
		errs = append(errs, field.Forbidden(path.Child("requests"), "resource requests cannot be removed"))
	}
	if lacksOneOf(now.Limits, before.Limits) {
		errs = append(errs, field.Forbidden(path.Child("limits"), "resource limits cannot be removed"))
	}
	return errs
}

func lacksOneOf(list, wanted corev1.ResourceList) bool {
	for name := range wanted {
		if _, ok := list[name]; !ok {
			return true
		}
	}
	return false
}

// putBackComputeResources makes cpu, memory and the resize policy of c those of old.
func putBackComputeResources(c, old *corev1.Container) {
	c.Resources = *withComputeOf(&c.Resources, &old.Resources)
	c.ResizePolicy = old.ResizePolicy
}

// withComputeOf is r with the cpu and memory of old; nil for a nil old, where cpu and memory were all that came.
func withComputeOf(r, old *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if r == nil {
		return nil
	}
	out := r.DeepCopy()
	if old == nil {
		old = &corev1.ResourceRequirements{}
	}
	out.Limits, out.Requests = computeOf(out.Limits, old.Limits), computeOf(out.Requests, old.Requests)
	return out
}

func computeOf(list, old corev1.ResourceList) corev1.ResourceList {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		quantity, ok := old[name]
		if !ok {
			delete(list, name)
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = quantity
	}
	return list
}
