package plugins

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/apiserver/admission"
	"vigil/kinds"
)

// The plug-ins of this file are off unless somebody turns them on.

// AlwaysAdmit admits.
type AlwaysAdmit struct{}

// Name implements admission.Plugin.
func (AlwaysAdmit) Name() string { return "AlwaysAdmit" }

// Handles implements admission.Plugin.
func (AlwaysAdmit) Handles(*kinds.Kind, string, admission.Operation) bool { return false }

// AlwaysDeny denies.
type AlwaysDeny struct{}

// Name implements admission.Plugin.
func (AlwaysDeny) Name() string { return "AlwaysDeny" }

// Handles implements admission.Plugin.
func (AlwaysDeny) Handles(*kinds.Kind, string, admission.Operation) bool { return true }

// Admit implements admission.Mutator.
func (AlwaysDeny) Admit(_ context.Context, a *admission.Attributes) error {
	return admission.Refuse(a, "admission control is denying all modifications")
}

// NamespaceExists keeps all writes out of namespaces that do not exist.
type NamespaceExists struct{ Reader admission.Reader }

// Name implements admission.Plugin.
func (NamespaceExists) Name() string { return "NamespaceExists" }

// Handles implements admission.Plugin.
func (NamespaceExists) Handles(k *kinds.Kind, _ string, op admission.Operation) bool {
	return k.Namespaced && op != admission.Connect
}

// Admit implements admission.Mutator.
func (p NamespaceExists) Admit(ctx context.Context, a *admission.Attributes) error {
	_, err := admission.Find(ctx, p.Reader, namespaces, "", a.Namespace)
	return err
}

// AlwaysPullImages has kubelets pull the images of pods each time, so that only who may pull an image can use it.
type AlwaysPullImages struct{}

// Name implements admission.Plugin.
func (AlwaysPullImages) Name() string { return "AlwaysPullImages" }

// Handles implements admission.Plugin.
func (AlwaysPullImages) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	return k.GroupResource() == pods && (subresource == "" || subresource == "ephemeralcontainers") && op != admission.Delete
}

// eachPolicy calls fn with all policies of pulling images and their places.
func eachPolicy(pod *corev1.Pod, fn func(at *field.Path, policy *corev1.PullPolicy)) {
	spec := field.NewPath("spec")
	for i := range pod.Spec.InitContainers {
		fn(spec.Child("initContainers").Index(i), &pod.Spec.InitContainers[i].ImagePullPolicy)
	}
	for i := range pod.Spec.Containers {
		fn(spec.Child("containers").Index(i), &pod.Spec.Containers[i].ImagePullPolicy)
	}
	for i := range pod.Spec.EphemeralContainers {
		fn(spec.Child("ephemeralContainers").Index(i), &pod.Spec.EphemeralContainers[i].ImagePullPolicy)
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			fn(spec.Child("volumes").Index(i).Child("image").Child("pullPolicy"), &image.PullPolicy)
		}
	}
}

// Admit implements admission.Mutator.
func (AlwaysPullImages) Admit(_ context.Context, a *admission.Attributes) error {
	if pod := podOf(a); pod != nil {
		eachPolicy(pod, func(_ *field.Path, policy *corev1.PullPolicy) { *policy = corev1.PullAlways })
	}
	return nil
}

// Validate implements admission.Validator.
func (AlwaysPullImages) Validate(_ context.Context, a *admission.Attributes) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	var errs []error
	eachPolicy(pod, func(at *field.Path, policy *corev1.PullPolicy) {
		if *policy != corev1.PullAlways {
			errs = append(errs, admission.Forbidden(a, field.NotSupported(at.Child("imagePullPolicy"), *policy, []string{string(corev1.PullAlways)})))
		}
	})
	return utilerrors.NewAggregate(errs)
}

// LimitPodHardAntiAffinityTopology lets pods keep others off their node, not off their zone.
type LimitPodHardAntiAffinityTopology struct{ on }

// Name implements admission.Plugin.
func (LimitPodHardAntiAffinityTopology) Name() string { return "LimitPodHardAntiAffinityTopology" }

// Validate implements admission.Validator.
func (LimitPodHardAntiAffinityTopology) Validate(_ context.Context, a *admission.Attributes) error {
	pod := podOf(a)
	if pod == nil || pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if term.TopologyKey != corev1.LabelHostname {
			return admission.Forbidden(a, fmt.Errorf("affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed", term.TopologyKey, corev1.LabelHostname))
		}
	}
	return nil
}

// ExtendedResourceToleration lets pods that ask for a device onto nodes that are tainted with the name of the device.
type ExtendedResourceToleration struct{ on }

// Name implements admission.Plugin.
func (ExtendedResourceToleration) Name() string { return "ExtendedResourceToleration" }

// Admit implements admission.Mutator.
func (ExtendedResourceToleration) Admit(_ context.Context, a *admission.Attributes) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	extended := map[corev1.ResourceName]bool{}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if isExtended(name) {
					extended[name] = true
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(extended)) {
		toleration := corev1.Toleration{Key: string(name), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.MatchToleration(&toleration) }) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
		}
	}
	return nil
}

// PodNodeSelector adds the node selector that a namespace names in an annotation to its pods.
type PodNodeSelector struct {
	on
	Reader admission.Reader
}

const namespaceNodeSelector = "scheduler.alpha.kubernetes.io/node-selector"

// Name implements admission.Plugin.
func (PodNodeSelector) Name() string { return "PodNodeSelector" }

// Admit implements admission.Mutator.
func (p PodNodeSelector) Admit(ctx context.Context, a *admission.Attributes) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	namespace, err := admission.Find(ctx, p.Reader, namespaces, "", a.Namespace)
	if err != nil {
		return err
	}
	text := namespace.GetAnnotations()[namespaceNodeSelector]
	if text == "" {
		return nil
	}
	selector, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return err
	}
	if labels.Conflicts(selector, pod.Spec.NodeSelector) {
		return admission.Refuse(a, "pod node label selector conflicts with its namespace node label selector")
	}
	pod.Spec.NodeSelector = labels.Merge(selector, pod.Spec.NodeSelector)
	return nil
}

// DenyServiceExternalIPs lets services have no new external addresses.
type DenyServiceExternalIPs struct{ on }

// Name implements admission.Plugin.
func (DenyServiceExternalIPs) Name() string { return "DenyServiceExternalIPs" }

// Validate implements admission.Validator.
func (DenyServiceExternalIPs) Validate(_ context.Context, a *admission.Attributes) error {
	service, ok := a.Object.(*corev1.Service)
	if !ok {
		return nil
	}
	had := map[string]bool{}
	if old, ok := a.Old.(*corev1.Service); ok {
		for _, ip := range old.Spec.ExternalIPs {
			had[ip] = true
		}
	}
	for _, ip := range service.Spec.ExternalIPs {
		if !had[ip] {
			return admission.Refuse(a, "Use of external IPs is denied by admission control.")
		}
	}
	return nil
}
