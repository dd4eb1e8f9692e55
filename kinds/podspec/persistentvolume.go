package podspec

import (
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// ValidateVolumeSpec checks the spec of a persistent volume. name is the volume's. With inline it is one within a volume
// attachment, which has a CSI source and little else.
func ValidateVolumeSpec(spec *corev1.PersistentVolumeSpec, name string, inline bool, at *field.Path) field.ErrorList {
	errs := ValidateAccessModes(spec.AccessModes, "", at.Child("accessModes"))
	if inline {
		errs = append(errs, validateInline(spec, at)...)
	} else {
		errs = append(errs, validateCapacity(spec.Capacity, at.Child("capacity"))...)
		if p := spec.PersistentVolumeReclaimPolicy; p != "" {
			errs = append(errs, notSupportedIn(at.Child("persistentVolumeReclaimPolicy"), p,
				corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
		}
		if spec.StorageClassName != "" {
			errs = append(errs, validate.Name(spec.StorageClassName, at.Child("storageClassName"))...)
		}
		if spec.VolumeMode != nil {
			errs = append(errs, notSupportedIn(at.Child("volumeMode"), *spec.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
		}
	}

	c := &checker{spec: &corev1.PodSpec{}}
	c.oneOf(at, c.persistentVolumes(spec, name, at), textOneVolumeType, "must specify a volume type")
	errs = append(errs, c.errs...)
	if affinity := spec.NodeAffinity; affinity != nil && !inline {
		if affinity.Required == nil {
			errs = append(errs, field.Required(at.Child("nodeAffinity", "required"), "must specify required node constraints"))
		} else {
			errs = append(errs, ValidateNodeSelector(affinity.Required, false, at.Child("nodeAffinity", "required"))...)
		}
	} else if spec.Local != nil {
		errs = append(errs, field.Required(at.Child("nodeAffinity"), "Local volume requires node affinity"))
	}
	if spec.HostPath != nil && path.Clean(spec.HostPath.Path) == "/" && spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(at.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'"))
	}
	if class := spec.VolumeAttributesClassName; class != nil {
		if *class == "" {
			errs = append(errs, field.Required(at.Child("volumeAttributesClassName"), "an empty string is disallowed"))
		} else {
			errs = append(errs, validate.Name(*class, at.Child("volumeAttributesClassName"))...)
		}
		if spec.CSI == nil {
			errs = append(errs, field.Required(at.Child("csi"), "has to be specified when using volumeAttributesClassName"))
		}
	}
	return errs
}

// validateInline forbids what an inline volume cannot have.
func validateInline(spec *corev1.PersistentVolumeSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"claimRef", spec.ClaimRef != nil},
		{"capacity", len(spec.Capacity) > 0},
		{"nodeAffinity", spec.NodeAffinity != nil},
		{"storageClassName", spec.StorageClassName != ""},
	} {
		if f.set {
			errs = append(errs, field.Forbidden(at.Child(f.name), "may not be specified in the context of inline volumes"))
		}
	}
	if spec.CSI == nil {
		errs = append(errs, field.Required(at.Child("csi"), "has to be specified in the context of inline volumes"))
	}
	if p := spec.PersistentVolumeReclaimPolicy; p != "" && p != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.Forbidden(at.Child("persistentVolumeReclaimPolicy"), "may only be Retain in the context of inline volumes"))
	}
	if m := spec.VolumeMode; m != nil && *m != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.Forbidden(at.Child("volumeMode"), "may not specify volumeMode other than Filesystem in the context of inline volumes"))
	}
	return errs
}

// validateCapacity wants the size of the volume and nothing else.
func validateCapacity(capacity corev1.ResourceList, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(capacity) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	if _, ok := capacity[corev1.ResourceStorage]; !ok || len(capacity) > 1 {
		errs = append(errs, field.NotSupported(at, capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		quantity := capacity[name]
		if quantity.Value() < 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), quantity.Value(), "must be a valid resource quantity"))
		}
		if quantity.Sign() <= 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), quantity.String(), textNotPositive))
		}
	}
	return errs
}

// persistentVolumes are the sources of persistent volumes. Most are also sources of pods' volumes and are checked as
// those, with secrets that may be in other namespaces.
func (c *checker) persistentVolumes(spec *corev1.PersistentVolumeSpec, name string, specPath *field.Path) []variant {
	v := asVolume(&spec.PersistentVolumeSource, name)
	variants := []variant{
		{"hostPath", v.HostPath != nil, func(at *field.Path) { c.checkHostPath(v.HostPath, at) }},
		{"local", spec.Local != nil, func(at *field.Path) {
			if spec.Local.Path == "" {
				c.add(field.Required(at.Child("path"), ""))
				return
			}
			c.add(noBackstep(spec.Local.Path, at.Child("path"))...)
		}},
		{"csi", spec.CSI != nil, func(at *field.Path) { c.checkPersistentCSI(spec.CSI, at) }},
		{"storageos", spec.StorageOS != nil, func(at *field.Path) {
			c.require(spec.StorageOS.VolumeName, at.Child("volumeName"))
			if ref := spec.StorageOS.SecretRef; ref != nil {
				c.require(ref.Name, at.Child("secretRef", "name"))
				c.require(ref.Namespace, at.Child("secretRef", "namespace"))
			}
		}},
	}
	for _, n := range c.networkVolumes(v, specPath) {
		if n.name != "gitRepo" && n.name != "storageos" {
			variants = append(variants, n)
		}
	}
	return variants
}

// asVolume shows the source of a persistent volume as that of a pod's volume, as far as there is such a one.
func asVolume(s *corev1.PersistentVolumeSource, name string) *corev1.Volume {
	v := &corev1.Volume{Name: name}
	v.GCEPersistentDisk, v.AWSElasticBlockStore, v.HostPath, v.NFS = s.GCEPersistentDisk, s.AWSElasticBlockStore, s.HostPath, s.NFS
	v.Quobyte, v.FC, v.Flocker, v.AzureDisk = s.Quobyte, s.FC, s.Flocker, s.AzureDisk
	v.VsphereVolume, v.PhotonPersistentDisk, v.PortworxVolume = s.VsphereVolume, s.PhotonPersistentDisk, s.PortworxVolume
	if g := s.Glusterfs; g != nil {
		v.Glusterfs = &corev1.GlusterfsVolumeSource{EndpointsName: g.EndpointsName, Path: g.Path, ReadOnly: g.ReadOnly}
	}
	if r := s.RBD; r != nil {
		v.RBD = &corev1.RBDVolumeSource{CephMonitors: r.CephMonitors, RBDImage: r.RBDImage, SecretRef: local(r.SecretRef)}
	}
	if i := s.ISCSI; i != nil {
		v.ISCSI = &corev1.ISCSIVolumeSource{
			TargetPortal: i.TargetPortal, IQN: i.IQN, Lun: i.Lun, SecretRef: local(i.SecretRef), InitiatorName: i.InitiatorName,
			DiscoveryCHAPAuth: i.DiscoveryCHAPAuth, SessionCHAPAuth: i.SessionCHAPAuth,
		}
	}
	if o := s.Cinder; o != nil {
		v.Cinder = &corev1.CinderVolumeSource{VolumeID: o.VolumeID, SecretRef: local(o.SecretRef)}
	}
	if f := s.CephFS; f != nil {
		v.CephFS = &corev1.CephFSVolumeSource{Monitors: f.Monitors}
	}
	if f := s.FlexVolume; f != nil {
		v.FlexVolume = &corev1.FlexVolumeSource{Driver: f.Driver, Options: f.Options}
	}
	if a := s.AzureFile; a != nil {
		v.AzureFile = &corev1.AzureFileVolumeSource{SecretName: a.SecretName, ShareName: a.ShareName}
	}
	if i := s.ScaleIO; i != nil {
		v.ScaleIO = &corev1.ScaleIOVolumeSource{Gateway: i.Gateway, System: i.System, VolumeName: i.VolumeName}
	}
	return v
}

func local(ref *corev1.SecretReference) *corev1.LocalObjectReference {
	if ref == nil {
		return nil
	}
	return &corev1.LocalObjectReference{Name: ref.Name}
}

func (c *checker) checkPersistentCSI(s *corev1.CSIPersistentVolumeSource, at *field.Path) {
	c.add(CSIDriverName(s.Driver, at.Child("driver"))...)
	c.require(s.VolumeHandle, at.Child("volumeHandle"))
	for _, ref := range []struct {
		name   string
		secret *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", s.ControllerPublishSecretRef},
		{"controllerExpandSecretRef", s.ControllerExpandSecretRef},
		{"nodePublishSecretRef", s.NodePublishSecretRef},
		{"nodeExpandSecretRef", s.NodeExpandSecretRef},
	} {
		if ref.secret != nil {
			c.require(ref.secret.Name, at.Child(ref.name, "name"))
			c.require(ref.secret.Namespace, at.Child(ref.name, "namespace"))
		}
	}
}

// DefaultVolumeSource fills in the defaults of a persistent volume's source.
func DefaultVolumeSource(s *corev1.PersistentVolumeSource) {
	switch {
	case s.HostPath != nil:
		setIfNil(&s.HostPath.Type, corev1.HostPathUnset)
	case s.ISCSI != nil:
		setIfEmpty(&s.ISCSI.ISCSIInterface, "default")
	case s.RBD != nil:
		setIfEmpty(&s.RBD.RBDPool, "rbd")
		setIfEmpty(&s.RBD.RadosUser, "admin")
		setIfEmpty(&s.RBD.Keyring, "/etc/ceph/keyring")
	case s.AzureDisk != nil:
		setIfNil(&s.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		setIfNil(&s.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
		setIfNil(&s.AzureDisk.FSType, "ext4")
		setIfNil(&s.AzureDisk.ReadOnly, false)
	case s.ScaleIO != nil:
		setIfEmpty(&s.ScaleIO.StorageMode, "ThinProvisioned")
		setIfEmpty(&s.ScaleIO.FSType, "xfs")
	}
}
