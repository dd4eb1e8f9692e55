package podspec

import (
	corev1 "k8s.io/api/core/v1"
)

// Modes of files in volumes that the kubelet writes.
const defaultFileMode int32 = 0o644

func defaultVolume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		return
	}
	switch {
	case v.Secret != nil:
		setIfNil(&v.Secret.DefaultMode, defaultFileMode)
	case v.ConfigMap != nil:
		setIfNil(&v.ConfigMap.DefaultMode, defaultFileMode)
	case v.DownwardAPI != nil:
		setIfNil(&v.DownwardAPI.DefaultMode, defaultFileMode)
		defaultDownwardItems(v.DownwardAPI.Items)
	case v.Projected != nil:
		setIfNil(&v.Projected.DefaultMode, defaultFileMode)
		defaultProjections(v.Projected.Sources)
	case v.HostPath != nil:
		setIfNil(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Ephemeral != nil:
		if template := v.Ephemeral.VolumeClaimTemplate; template != nil {
			DefaultClaimSpec(&template.Spec)
		}
	case v.Image != nil:
		if v.Image.PullPolicy == "" {
			v.Image.PullPolicy = pullPolicy(v.Image.Reference)
		}
	default:
		defaultNetworkVolume(v)
	}
}

func defaultProjections(sources []corev1.VolumeProjection) {
	for i := range sources {
		if token := sources[i].ServiceAccountToken; token != nil {
			setIfNil(&token.ExpirationSeconds, 3600)
		}
		if api := sources[i].DownwardAPI; api != nil {
			defaultDownwardItems(api.Items)
		}
	}
}

func defaultDownwardItems(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

// DefaultClaimSpec fills in the defaults of a claim's spec: those of PersistentVolumeClaims and of claim templates.
func DefaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	setIfNil(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	RoundUp(spec.Resources.Limits)
	RoundUp(spec.Resources.Requests)
}

// defaultNetworkVolume handles the sources of the in-tree drivers of old.
func defaultNetworkVolume(v *corev1.Volume) {
	switch {
	case v.ISCSI != nil:
		setIfEmpty(&v.ISCSI.ISCSIInterface, "default")
	case v.RBD != nil:
		setIfEmpty(&v.RBD.RBDPool, "rbd")
		setIfEmpty(&v.RBD.RadosUser, "admin")
		setIfEmpty(&v.RBD.Keyring, "/etc/ceph/keyring")
	case v.AzureDisk != nil:
		setIfNil(&v.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		setIfNil(&v.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
		setIfNil(&v.AzureDisk.FSType, "ext4")
		setIfNil(&v.AzureDisk.ReadOnly, false)
	case v.ScaleIO != nil:
		setIfEmpty(&v.ScaleIO.StorageMode, "ThinProvisioned")
		setIfEmpty(&v.ScaleIO.FSType, "xfs")
	}
}
