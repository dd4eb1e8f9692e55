package node

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	for _, secret := range pod.Spec.ImagePullSecrets {
		r.secret(secret.Name)
	}
	podspec.VisitContainers(&pod.Spec, nil, func(c *corev1.Container, _ *field.Path) { r.container(c) })
	for i := range pod.Spec.Volumes {
		r.volume(pod, &pod.Spec.Volumes[i])
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

func (r *refs) secret(name string) {
	if name != "" {
		r.secrets = append(r.secrets, name)
	}
}

func (r *refs) configMap(name string) {
	if name != "" {
		r.configMaps = append(r.configMaps, name)
	}
}

func (r *refs) container(c *corev1.Container) {
	for _, from := range c.EnvFrom {
		if from.SecretRef != nil {
			r.secret(from.SecretRef.Name)
		}
		if from.ConfigMapRef != nil {
			r.configMap(from.ConfigMapRef.Name)
		}
	}
	for _, env := range c.Env {
		if env.ValueFrom == nil {
			continue
		}
		if ref := env.ValueFrom.SecretKeyRef; ref != nil {
			r.secret(ref.Name)
		}
		if ref := env.ValueFrom.ConfigMapKeyRef; ref != nil {
			r.configMap(ref.Name)
		}
	}
}

func (r *refs) volume(pod *corev1.Pod, volume *corev1.Volume) {
	switch {
	case volume.Secret != nil:
		r.secret(volume.Secret.SecretName)
	case volume.ConfigMap != nil:
		r.configMap(volume.ConfigMap.Name)
	case volume.PersistentVolumeClaim != nil:
		r.claims = append(r.claims, volume.PersistentVolumeClaim.ClaimName)
	case volume.Ephemeral != nil:
		r.claims = append(r.claims, ephemeral.VolumeClaimName(pod, volume))
	case volume.Projected != nil:
		for _, source := range volume.Projected.Sources {
			if source.Secret != nil {
				r.secret(source.Secret.Name)
			}
			if source.ConfigMap != nil {
				r.configMap(source.ConfigMap.Name)
			}
		}
	case volume.CSI != nil && volume.CSI.NodePublishSecretRef != nil:
		r.secret(volume.CSI.NodePublishSecretRef.Name)
	case volume.AzureFile != nil:
		r.secret(volume.AzureFile.SecretName)
	case volume.CephFS != nil && volume.CephFS.SecretRef != nil:
		r.secret(volume.CephFS.SecretRef.Name)
	case volume.Cinder != nil && volume.Cinder.SecretRef != nil:
		r.secret(volume.Cinder.SecretRef.Name)
	case volume.FlexVolume != nil && volume.FlexVolume.SecretRef != nil:
		r.secret(volume.FlexVolume.SecretRef.Name)
	case volume.ISCSI != nil && volume.ISCSI.SecretRef != nil:
		r.secret(volume.ISCSI.SecretRef.Name)
	case volume.RBD != nil && volume.RBD.SecretRef != nil:
		r.secret(volume.RBD.SecretRef.Name)
	case volume.ScaleIO != nil && volume.ScaleIO.SecretRef != nil:
		r.secret(volume.ScaleIO.SecretRef.Name)
	case volume.StorageOS != nil && volume.StorageOS.SecretRef != nil:
		r.secret(volume.StorageOS.SecretRef.Name)
	}
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
