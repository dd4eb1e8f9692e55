// Package references finds out what sorts of objects a pod refers to.
package references

import corev1 "k8s.io/api/core/v1"

// References are the sorts of objects that a pod's spec refers to.
type References struct {
	Secrets, ConfigMaps, Claims, TrustBundles, Tokens, ResourceClaims bool
}

// Of finds out what a pod refers to. Which fields refer to secrets and config maps is as upstream's
// podutil.VisitPodSecretNames and VisitPodConfigmapNames have it.
func Of(pod *corev1.Pod) (r References) {
	spec := &pod.Spec
	r.Secrets = len(spec.ImagePullSecrets) > 0
	r.ResourceClaims = len(spec.ResourceClaims) > 0
	env := func(vars []corev1.EnvVar, from []corev1.EnvFromSource) {
		for i := range from {
			r.Secrets = r.Secrets || from[i].SecretRef != nil
			r.ConfigMaps = r.ConfigMaps || from[i].ConfigMapRef != nil
		}
		for i := range vars {
			if v := vars[i].ValueFrom; v != nil {
				r.Secrets = r.Secrets || v.SecretKeyRef != nil
				r.ConfigMaps = r.ConfigMaps || v.ConfigMapKeyRef != nil
			}
		}
	}
	for i := range spec.InitContainers {
		env(spec.InitContainers[i].Env, spec.InitContainers[i].EnvFrom)
	}
	for i := range spec.Containers {
		env(spec.Containers[i].Env, spec.Containers[i].EnvFrom)
	}
	for i := range spec.EphemeralContainers {
		env(spec.EphemeralContainers[i].Env, spec.EphemeralContainers[i].EnvFrom)
	}
	for i := range spec.Volumes {
		r.addVolume(&spec.Volumes[i])
	}
	return r
}

func (r *References) addVolume(v *corev1.Volume) {
	r.Claims = r.Claims || v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	r.ConfigMaps = r.ConfigMaps || v.ConfigMap != nil
	switch {
	case v.Secret != nil, v.AzureFile != nil,
		v.CephFS != nil && v.CephFS.SecretRef != nil,
		v.Cinder != nil && v.Cinder.SecretRef != nil,
		v.FlexVolume != nil && v.FlexVolume.SecretRef != nil,
		v.RBD != nil && v.RBD.SecretRef != nil,
		v.ScaleIO != nil && v.ScaleIO.SecretRef != nil,
		v.ISCSI != nil && v.ISCSI.SecretRef != nil,
		v.StorageOS != nil && v.StorageOS.SecretRef != nil,
		v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		r.Secrets = true
	}
	if v.Projected == nil {
		return
	}
	for i := range v.Projected.Sources {
		s := &v.Projected.Sources[i]
		r.Secrets = r.Secrets || s.Secret != nil
		r.ConfigMaps = r.ConfigMaps || s.ConfigMap != nil
		r.TrustBundles = r.TrustBundles || s.ClusterTrustBundle != nil
		r.Tokens = r.Tokens || s.ServiceAccountToken != nil
	}
}
