package configobjects

import (
	corev1 "k8s.io/api/core/v1"

	"vigil/kinds/podspec"
)

// kind is one of the kinds that are kept.
type kind uint8

const (
	secrets kind = iota
	configMaps
)

// resource is the kind's plural on the wire, singular its name in errors, as the kubelet has them.
func (k kind) resource() string { return [...]string{"secrets", "configmaps"}[k] }
func (k kind) singular() string { return [...]string{"secret", "configmap"}[k] }

// key names an object.
type key struct {
	kind            kind
	namespace, name string
}

// references are the objects that a pod names. Those of a mirror pod are none: static pods may not use API objects.
func references(pod *corev1.Pod) map[key]struct{} {
	found := map[key]struct{}{}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return found
	}
	podspec.VisitReferences(&pod.Spec,
		func(secret string) { found[key{secrets, pod.Namespace, secret}] = struct{}{} },
		func(configMap string) { found[key{configMaps, pod.Namespace, configMap}] = struct{}{} })
	return found
}
