package objects

import (
	corev1 "k8s.io/api/core/v1"
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
	add := func(k kind, name string) {
		if name != "" {
			found[key{k, pod.Namespace, name}] = struct{}{}
		}
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return found
	}
	for _, s := range pod.Spec.ImagePullSecrets {
		add(secrets, s.Name)
	}
	environment := func(env []corev1.EnvVar, from []corev1.EnvFromSource) {
		for _, e := range from {
			if e.SecretRef != nil {
				add(secrets, e.SecretRef.Name)
			}
			if e.ConfigMapRef != nil {
				add(configMaps, e.ConfigMapRef.Name)
			}
		}
		for _, e := range env {
			if e.ValueFrom == nil {
				continue
			}
			if e.ValueFrom.SecretKeyRef != nil {
				add(secrets, e.ValueFrom.SecretKeyRef.Name)
			}
			if e.ValueFrom.ConfigMapKeyRef != nil {
				add(configMaps, e.ValueFrom.ConfigMapKeyRef.Name)
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		environment(pod.Spec.InitContainers[i].Env, pod.Spec.InitContainers[i].EnvFrom)
	}
	for i := range pod.Spec.Containers {
		environment(pod.Spec.Containers[i].Env, pod.Spec.Containers[i].EnvFrom)
	}
	for i := range pod.Spec.EphemeralContainers {
		environment(pod.Spec.EphemeralContainers[i].Env, pod.Spec.EphemeralContainers[i].EnvFrom)
	}
	for i := range pod.Spec.Volumes {
		volume(&pod.Spec.Volumes[i], add)
	}
	return found
}

// volume adds what a volume names.
func volume(v *corev1.Volume, add func(kind, string)) {
	local := func(ref *corev1.LocalObjectReference) {
		if ref != nil {
			add(secrets, ref.Name)
		}
	}
	switch {
	case v.Secret != nil:
		add(secrets, v.Secret.SecretName)
	case v.ConfigMap != nil:
		add(configMaps, v.ConfigMap.Name)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				add(secrets, s.Secret.Name)
			}
			if s.ConfigMap != nil {
				add(configMaps, s.ConfigMap.Name)
			}
		}
	case v.CSI != nil:
		local(v.CSI.NodePublishSecretRef)
	case v.AzureFile != nil:
		add(secrets, v.AzureFile.SecretName)
	case v.CephFS != nil:
		local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		local(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		local(v.ISCSI.SecretRef)
	case v.RBD != nil:
		local(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		local(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		local(v.StorageOS.SecretRef)
	}
}
