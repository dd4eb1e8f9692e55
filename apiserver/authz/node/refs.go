package node

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"vigil/kinds/podspec"
)

// refs are the objects that a pod refers to, all in its own namespace. Lists, because they are short.
type refs struct {
	namespace      string
	serviceAccount string
	secrets        []string
	configMaps     []string
	claims         []string // persistent volume claims, those made for ephemeral volumes included
	resourceClaims []string
}

// refsOf works out what a pod refers to. A mirror pod refers to nothing: whoever runs the node wrote it.
func refsOf(pod *corev1.Pod) *refs {
	r := &refs{namespace: pod.Namespace}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return r
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return r // nothing of it runs any more
	}
	r.serviceAccount = pod.Spec.ServiceAccountName
	podspec.VisitReferences(&pod.Spec,
		func(secret string) { r.secrets = append(r.secrets, secret) },
		func(configMap string) { r.configMaps = append(r.configMaps, configMap) })
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.PersistentVolumeClaim != nil:
			r.claims = append(r.claims, volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			r.claims = append(r.claims, ephemeral.VolumeClaimName(pod, volume))
		}
	}
	for _, claim := range pod.Spec.ResourceClaims {
		if claim.ResourceClaimName != nil {
			r.resourceClaims = append(r.resourceClaims, *claim.ResourceClaimName)
		}
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.ResourceClaimName != nil {
			r.resourceClaims = append(r.resourceClaims, *status.ResourceClaimName)
		}
	}
	return r
}

// secretKey names a secret.
type secretKey struct{ namespace, name string }

// volumeSecrets are the secrets that a persistent volume refers to; those without a namespace are in its claim's.
func volumeSecrets(volume *corev1.PersistentVolume) []secretKey {
	var keys []secretKey
	add := func(ref *corev1.SecretReference) {
		if ref == nil || ref.Name == "" {
			return
		}
		key := secretKey{ref.Namespace, ref.Name}
		if key.namespace == "" && volume.Spec.ClaimRef != nil {
			key.namespace = volume.Spec.ClaimRef.Namespace
		}
		keys = append(keys, key)
	}
	source := &volume.Spec.PersistentVolumeSource
	switch {
	case source.CSI != nil:
		add(source.CSI.ControllerPublishSecretRef)
		add(source.CSI.NodeStageSecretRef)
		add(source.CSI.NodePublishSecretRef)
		add(source.CSI.NodeExpandSecretRef)
	case source.AzureFile != nil:
		ref := &corev1.SecretReference{Name: source.AzureFile.SecretName}
		if source.AzureFile.SecretNamespace != nil {
			ref.Namespace = *source.AzureFile.SecretNamespace
		}
		add(ref)
	case source.CephFS != nil:
		add(source.CephFS.SecretRef)
	case source.Cinder != nil:
		add(source.Cinder.SecretRef)
	case source.FlexVolume != nil:
		add(source.FlexVolume.SecretRef)
	case source.ISCSI != nil:
		add(source.ISCSI.SecretRef)
	case source.RBD != nil:
		add(source.RBD.SecretRef)
	case source.ScaleIO != nil:
		add(source.ScaleIO.SecretRef)
	}
	return keys
}
