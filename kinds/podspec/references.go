package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// VisitReferences calls secret and configMap with the names of the Secrets and ConfigMaps of its namespace that a pod refers to: for
// pulling images, in environments and by volumes. A name comes as often as it is referred to. Upstream: pkg/api/v1/pod, VisitPodSecretNames and
// VisitPodConfigmapNames.
func VisitReferences(spec *corev1.PodSpec, secret, configMap func(name string)) {
	v := references{named(secret), named(configMap)}
	for i := range spec.ImagePullSecrets {
		v.secret(spec.ImagePullSecrets[i].Name)
	}
	VisitContainers(spec, nil, func(c *corev1.Container, _ *field.Path) { v.container(c) })
	for i := range spec.Volumes {
		v.volume(&spec.Volumes[i])
	}
}

// named leaves out references without a name, which are optional ones.
func named(visit func(name string)) func(name string) {
	return func(name string) {
		if name != "" {
			visit(name)
		}
	}
}

type references struct{ secret, configMap func(name string) }

func (v references) container(c *corev1.Container) {
	for i := range c.EnvFrom {
		if ref := c.EnvFrom[i].SecretRef; ref != nil {
			v.secret(ref.Name)
		}
		if ref := c.EnvFrom[i].ConfigMapRef; ref != nil {
			v.configMap(ref.Name)
		}
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil {
			continue
		}
		if from.SecretKeyRef != nil {
			v.secret(from.SecretKeyRef.Name)
		}
		if from.ConfigMapKeyRef != nil {
			v.configMap(from.ConfigMapKeyRef.Name)
		}
	}
}

func (v references) volume(volume *corev1.Volume) {
	local := func(ref *corev1.LocalObjectReference) {
		if ref != nil {
			v.secret(ref.Name)
		}
	}
	switch {
	case volume.Secret != nil:
		v.secret(volume.Secret.SecretName)
	case volume.ConfigMap != nil:
		v.configMap(volume.ConfigMap.Name)
	case volume.Projected != nil:
		for i := range volume.Projected.Sources {
			if source := volume.Projected.Sources[i].Secret; source != nil {
				v.secret(source.Name)
			}
			if source := volume.Projected.Sources[i].ConfigMap; source != nil {
				v.configMap(source.Name)
			}
		}
	case volume.CSI != nil:
		local(volume.CSI.NodePublishSecretRef)
	case volume.AzureFile != nil:
		v.secret(volume.AzureFile.SecretName)
	case volume.CephFS != nil:
		local(volume.CephFS.SecretRef)
	case volume.Cinder != nil:
		local(volume.Cinder.SecretRef)
	case volume.FlexVolume != nil:
		local(volume.FlexVolume.SecretRef)
	case volume.ISCSI != nil:
		local(volume.ISCSI.SecretRef)
	case volume.RBD != nil:
		local(volume.RBD.SecretRef)
	case volume.ScaleIO != nil:
		local(volume.ScaleIO.SecretRef)
	case volume.StorageOS != nil:
		local(volume.StorageOS.SecretRef)
	}
}
