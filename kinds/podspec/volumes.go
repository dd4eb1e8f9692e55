package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// checkVolumes checks the volumes and keeps the valid ones for the mounts, which may name only those.
func (c *checker) checkVolumes(path *field.Path) {
	c.volumes = map[string]*corev1.VolumeSource{}
	ownClaims := sets.New[string]() // made for this pod from its ephemeral volumes
	if c.meta != nil && c.meta.Name != "" {
		for _, v := range c.spec.Volumes {
			if v.Ephemeral != nil {
				ownClaims.Insert(c.meta.Name + "-" + v.Name)
			}
		}
	}
	for i := range c.spec.Volumes {
		v, at := &c.spec.Volumes[i], path.Index(i)
		before := len(c.errs)
		c.checkVolumeSource(v, at)
		if v.Name == "" {
			c.add(field.Required(at.Child("name"), ""))
		} else {
			c.add(validate.Each(v.Name, at.Child("name"), validation.IsDNS1123Label)...)
		}
		if c.volumes[v.Name] != nil {
			c.add(field.Duplicate(at.Child("name"), v.Name))
		}
		if len(c.errs) == before {
			c.volumes[v.Name] = &v.VolumeSource
		}
		if claim := v.PersistentVolumeClaim; claim != nil && ownClaims.Has(claim.ClaimName) {
			c.add(field.Invalid(at.Child("persistentVolumeClaim", "claimName"), claim.ClaimName, "must not reference a PVC that gets created for an ephemeral volume"))
		}
	}
}

// checkVolumeSource wants exactly one source, and that one to be complete.
func (c *checker) checkVolumeSource(v *corev1.Volume, path *field.Path) {
	c.oneOf(path, append([]variant{
		{"emptyDir", v.EmptyDir != nil, func(at *field.Path) { c.checkEmptyDir(v.EmptyDir, at) }},
		{"hostPath", v.HostPath != nil, func(at *field.Path) { c.checkHostPath(v.HostPath, at) }},
		{"secret", v.Secret != nil, func(at *field.Path) {
			c.require(v.Secret.SecretName, at.Child("secretName"))
			c.add(fileMode(v.Secret.DefaultMode, at.Child("defaultMode"))...)
			c.checkItems(v.Secret.Items, at.Child("items"))
		}},
		{"persistentVolumeClaim", v.PersistentVolumeClaim != nil, func(at *field.Path) {
			c.require(v.PersistentVolumeClaim.ClaimName, at.Child("claimName"))
		}},
		{"downwardAPI", v.DownwardAPI != nil, func(at *field.Path) {
			c.add(fileMode(v.DownwardAPI.DefaultMode, at.Child("defaultMode"))...)
			for i := range v.DownwardAPI.Items {
				c.checkDownwardFile(&v.DownwardAPI.Items[i], at)
			}
		}},
		{"configMap", v.ConfigMap != nil, func(at *field.Path) {
			c.require(v.ConfigMap.Name, at.Child("name"))
			c.add(fileMode(v.ConfigMap.DefaultMode, at.Child("defaultMode"))...)
			c.checkItems(v.ConfigMap.Items, at.Child("items"))
		}},
		{"projected", v.Projected != nil, func(at *field.Path) { c.checkProjected(v.Projected, at) }},
		{"csi", v.CSI != nil, func(at *field.Path) { c.checkCSI(v.CSI, at) }},
		{"ephemeral", v.Ephemeral != nil, func(at *field.Path) { c.checkEphemeral(v, at, path) }},
		{"image", v.Image != nil, func(at *field.Path) {
			c.require(v.Image.Reference, at.Child("reference"))
			c.add(validate.OneOf(v.Image.PullPolicy, at.Child("pullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
		}},
	}, c.networkVolumes(v, path)...), textOneVolumeType, "must specify a volume type")
}

func (c *checker) require(value string, path *field.Path) {
	if value == "" {
		c.add(field.Required(path, ""))
	}
}

func (c *checker) checkEmptyDir(s *corev1.EmptyDirVolumeSource, path *field.Path) {
	if s.SizeLimit != nil && s.SizeLimit.Cmp(resource.Quantity{}) < 0 {
		c.add(field.Forbidden(path.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity"))
	}
	c.add(fileMode(s.Mode, path.Child("mode"))...)
}

func (c *checker) checkHostPath(s *corev1.HostPathVolumeSource, path *field.Path) {
	if s.Path == "" {
		c.add(field.Required(path.Child("path"), ""))
		return
	}
	c.add(noBackstep(s.Path, path.Child("path"))...)
	if s.Type != nil {
		c.add(notSupportedIn(path.Child("type"), *s.Type, corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev,
			corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)...)
	}
}

func (c *checker) checkCSI(s *corev1.CSIVolumeSource, path *field.Path) {
	c.add(CSIDriverName(s.Driver, path.Child("driver"))...)
	if ref := s.NodePublishSecretRef; ref != nil {
		if ref.Name == "" {
			c.add(field.Required(path.Child("nodePublishSecretRef", "name"), ""))
		} else {
			c.add(validate.Name(ref.Name, path.Child("name"))...)
		}
	}
}

// checkEphemeral checks the template of a claim that is made for the pod, and that the claim can have a name.
func (c *checker) checkEphemeral(v *corev1.Volume, path, volumePath *field.Path) {
	template := v.Ephemeral.VolumeClaimTemplate
	if template == nil {
		c.add(field.Required(path.Child("volumeClaimTemplate"), ""))
	} else {
		c.add(ValidateClaimTemplate(template, path.Child("volumeClaimTemplate"))...)
	}
	if c.meta == nil || c.meta.Name == "" || v.Name == "" {
		return
	}
	claim := c.meta.Name + "-" + v.Name
	for _, text := range validation.IsDNS1123Subdomain(claim) {
		c.add(field.Invalid(volumePath.Child("name"), v.Name, fmt.Sprintf("PVC name %q: %v", claim, text)))
	}
}
