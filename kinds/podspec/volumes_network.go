package podspec

import (
	"net"
	"path"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// networkVolumes are the sources of the in-tree drivers of old, most of which live on behind CSI only.
func (c *checker) networkVolumes(v *corev1.Volume, volumePath *field.Path) []variant {
	return []variant{
		{"gitRepo", v.GitRepo != nil, func(at *field.Path) {
			c.require(v.GitRepo.Repository, at.Child("repository"))
			c.add(relativePath(v.GitRepo.Directory, at.Child("directory"))...)
		}},
		{"gcePersistentDisk", v.GCEPersistentDisk != nil, func(*field.Path) {
			at := volumePath.Child("persistentDisk") // the path upstream reports
			c.require(v.GCEPersistentDisk.PDName, at.Child("pdName"))
			c.checkPartition(v.GCEPersistentDisk.Partition, at)
		}},
		{"awsElasticBlockStore", v.AWSElasticBlockStore != nil, func(at *field.Path) {
			c.require(v.AWSElasticBlockStore.VolumeID, at.Child("volumeID"))
			c.checkPartition(v.AWSElasticBlockStore.Partition, at)
		}},
		{"nfs", v.NFS != nil, func(at *field.Path) {
			c.require(v.NFS.Server, at.Child("server"))
			c.require(v.NFS.Path, at.Child("path"))
			if !path.IsAbs(v.NFS.Path) {
				c.add(field.Invalid(at.Child("path"), v.NFS.Path, "must be an absolute path"))
			}
		}},
		{"iscsi", v.ISCSI != nil, func(at *field.Path) { c.checkISCSI(v, at, volumePath) }},
		{"glusterfs", v.Glusterfs != nil, func(at *field.Path) {
			c.require(v.Glusterfs.EndpointsName, at.Child("endpoints"))
			c.require(v.Glusterfs.Path, at.Child("path"))
		}},
		{"flocker", v.Flocker != nil, func(at *field.Path) { c.checkFlocker(v.Flocker, at) }},
		{"rbd", v.RBD != nil, func(at *field.Path) {
			if len(v.RBD.CephMonitors) == 0 {
				c.add(field.Required(at.Child("monitors"), ""))
			}
			c.require(v.RBD.RBDImage, at.Child("image"))
		}},
		{"cinder", v.Cinder != nil, func(at *field.Path) {
			c.require(v.Cinder.VolumeID, at.Child("volumeID"))
			c.requireSecretName(v.Cinder.SecretRef, at)
		}},
		{"cephfs", v.CephFS != nil, func(at *field.Path) {
			if len(v.CephFS.Monitors) == 0 {
				c.add(field.Required(at.Child("monitors"), ""))
			}
		}},
		{"quobyte", v.Quobyte != nil, func(at *field.Path) { c.checkQuobyte(v.Quobyte, at) }},
		{"fc", v.FC != nil, func(at *field.Path) { c.checkFC(v.FC, at) }},
		{"flexVolume", v.FlexVolume != nil, func(at *field.Path) { c.checkFlex(v.FlexVolume, at) }},
		{"azureFile", v.AzureFile != nil, func(at *field.Path) {
			c.require(v.AzureFile.SecretName, at.Child("secretName"))
			c.require(v.AzureFile.ShareName, at.Child("shareName"))
		}},
		{"vsphereVolume", v.VsphereVolume != nil, func(at *field.Path) { c.require(v.VsphereVolume.VolumePath, at.Child("volumePath")) }},
		{"photonPersistentDisk", v.PhotonPersistentDisk != nil, func(at *field.Path) { c.require(v.PhotonPersistentDisk.PdID, at.Child("pdID")) }},
		{"portworxVolume", v.PortworxVolume != nil, func(at *field.Path) { c.require(v.PortworxVolume.VolumeID, at.Child("volumeID")) }},
		{"azureDisk", v.AzureDisk != nil, func(at *field.Path) { c.checkAzureDisk(v.AzureDisk, at) }},
		{"storageos", v.StorageOS != nil, func(at *field.Path) { c.checkStorageOS(v.StorageOS, at) }},
		{"scaleIO", v.ScaleIO != nil, func(at *field.Path) {
			c.require(v.ScaleIO.Gateway, at.Child("gateway"))
			c.require(v.ScaleIO.System, at.Child("system"))
			c.require(v.ScaleIO.VolumeName, at.Child("volumeName"))
		}},
	}
}

func (c *checker) checkPartition(partition int32, at *field.Path) {
	if partition < 0 || partition > 255 {
		c.add(field.Invalid(at.Child("partition"), partition, validation.InclusiveRangeError(1, 255)))
	}
}

func (c *checker) requireSecretName(ref *corev1.LocalObjectReference, at *field.Path) {
	if ref != nil {
		c.require(ref.Name, at.Child("secretRef", "name"))
	}
}

// iscsiNames are the forms of names in RFC 3721, by their first letters.
var iscsiNames = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
	"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
}

func (c *checker) checkISCSIName(name string, at *field.Path) {
	form := iscsiNames[name[:min(3, len(name))]]
	if form == nil {
		c.add(field.Invalid(at, name, "must be valid format starting with iqn, eui, or naa"))
	} else if !form.MatchString(name) {
		c.add(field.Invalid(at, name, "must be valid format"))
	}
}

func (c *checker) checkISCSI(v *corev1.Volume, at, volumePath *field.Path) {
	s := v.ISCSI
	c.require(s.TargetPortal, at.Child("targetPortal"))
	if s.IQN == "" {
		c.add(field.Required(at.Child("iqn"), ""))
	} else {
		c.checkISCSIName(s.IQN, at.Child("iqn"))
	}
	if s.Lun < 0 || s.Lun > 255 {
		c.add(field.Invalid(at.Child("lun"), s.Lun, validation.InclusiveRangeError(0, 255)))
	}
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		c.add(field.Required(at.Child("secretRef"), ""))
	}
	if s.InitiatorName == nil {
		return
	}
	c.checkISCSIName(*s.InitiatorName, at.Child("initiatorname"))
	if len(v.Name+":"+s.TargetPortal) > 64 {
		c.add(field.Invalid(volumePath.Child("name"), v.Name,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
	}
}

func (c *checker) checkFlocker(s *corev1.FlockerVolumeSource, at *field.Path) {
	switch {
	case s.DatasetName == "" && s.DatasetUUID == "":
		c.add(field.Required(at, "one of datasetName and datasetUUID is required"))
	case s.DatasetName != "" && s.DatasetUUID != "":
		c.add(field.Invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
	}
	if strings.Contains(s.DatasetName, "/") {
		c.add(field.Invalid(at.Child("datasetName"), s.DatasetName, "must not contain '/'"))
	}
}

func (c *checker) checkQuobyte(s *corev1.QuobyteVolumeSource, at *field.Path) {
	const text = "must be a host:port pair or multiple pairs separated by commas"
	switch {
	case s.Registry == "":
		c.add(field.Required(at.Child("registry"), text))
	case len(s.Tenant) > 64:
		c.add(field.Required(at.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
	default:
		for _, pair := range strings.Split(s.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				c.add(field.Invalid(at.Child("registry"), s.Registry, text))
			}
		}
	}
	c.require(s.Volume, at.Child("volume"))
}

func (c *checker) checkFC(s *corev1.FCVolumeSource, at *field.Path) {
	switch {
	case len(s.TargetWWNs) == 0 && len(s.WWIDs) == 0:
		c.add(field.Required(at.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both"))
	case len(s.TargetWWNs) > 0 && len(s.WWIDs) > 0:
		c.add(field.Invalid(at.Child("targetWWNs"), s.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously"))
	}
	if len(s.TargetWWNs) == 0 {
		return
	}
	if s.Lun == nil {
		c.add(field.Required(at.Child("lun"), "lun is required if targetWWNs is specified"))
	} else if *s.Lun < 0 || *s.Lun > 255 {
		c.add(field.Invalid(at.Child("lun"), s.Lun, validation.InclusiveRangeError(0, 255)))
	}
}

func (c *checker) checkFlex(s *corev1.FlexVolumeSource, at *field.Path) {
	c.require(s.Driver, at.Child("driver"))
	for key := range s.Options {
		domain, _, _ := strings.Cut(key, "/")
		domain = "." + strings.ToLower(domain)
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			c.add(field.Invalid(at.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
}

func (c *checker) checkAzureDisk(s *corev1.AzureDiskVolumeSource, at *field.Path) {
	c.require(s.DiskName, at.Child("diskName"))
	c.require(s.DataDiskURI, at.Child("diskURI"))
	if s.CachingMode != nil {
		c.add(notSupportedIn(at.Child("cachingMode"), *s.CachingMode,
			corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)...)
	}
	if s.Kind == nil {
		return
	}
	c.add(notSupportedIn(at.Child("kind"), *s.Kind, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)...)
	switch managed := *s.Kind == corev1.AzureManagedDisk; {
	case managed && !strings.HasPrefix(s.DataDiskURI, "/subscriptions/"):
		c.add(field.NotSupported(at.Child("diskURI"), s.DataDiskURI,
			[]string{"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"}))
	case !managed && !strings.HasPrefix(s.DataDiskURI, "https://"):
		c.add(field.NotSupported(at.Child("diskURI"), s.DataDiskURI,
			[]string{"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"}))
	}
}

func (c *checker) checkStorageOS(s *corev1.StorageOSVolumeSource, at *field.Path) {
	if s.VolumeName == "" {
		c.add(field.Required(at.Child("volumeName"), ""))
	} else {
		c.add(validate.Each(s.VolumeName, at.Child("volumeName"), validation.IsDNS1123Label)...)
	}
	if s.VolumeNamespace != "" {
		c.add(validate.Each(s.VolumeNamespace, at.Child("volumeNamespace"), validation.IsDNS1123Label)...)
	}
	c.requireSecretName(s.SecretRef, at)
}

// CSIDriverName checks the name of a CSI driver: a subdomain of at most 63 characters in which upper case passes.
func CSIDriverName(name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(at, ""))
	}
	if len(name) > 63 {
		errs = append(errs, field.TooLong(at, name, 63))
	}
	for _, text := range validation.IsDNS1123Subdomain(strings.ToLower(name)) {
		errs = append(errs, field.Invalid(at, name, text))
	}
	return errs
}
