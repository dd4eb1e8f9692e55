package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkMounts checks a container's mounts. As upstream, the rules on sub-paths and propagation name the list and not
// the element in their paths.
func (c *checker) checkMounts(container *corev1.Container, path *field.Path) {
	deviceNames, devicePaths := sets.New[string](), sets.New[string]()
	for _, d := range container.VolumeDevices {
		deviceNames.Insert(d.Name)
		devicePaths.Insert(d.DevicePath)
	}
	paths := sets.New[string]()
	for i, m := range container.VolumeMounts {
		at := path.Index(i)
		if m.Name == "" {
			c.add(field.Required(at.Child("name"), ""))
		}
		source := c.volumes[m.Name]
		if source == nil {
			c.add(field.NotFound(at.Child("name"), m.Name))
		}
		if m.MountPath == "" {
			c.add(field.Required(at.Child("mountPath"), ""))
		}
		if paths.Has(m.MountPath) {
			c.add(field.Invalid(at.Child("mountPath"), m.MountPath, "must be unique"))
		}
		paths.Insert(m.MountPath)
		if deviceNames.Has(m.Name) {
			c.add(field.Invalid(at.Child("name"), m.Name, "must not already exist in volumeDevices"))
		}
		if devicePaths.Has(m.MountPath) {
			c.add(field.Invalid(at.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices"))
		}
		if m.SubPath != "" {
			c.add(relativePath(m.SubPath, path.Child("subPath"))...)
		}
		if m.SubPathExpr != "" {
			if m.SubPath != "" {
				c.add(field.Invalid(at.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
			}
			c.add(relativePath(m.SubPathExpr, path.Child("subPathExpr"))...)
		}
		c.checkPropagation(&m, container.SecurityContext, path)
	}
}

func (c *checker) checkPropagation(m *corev1.VolumeMount, security *corev1.SecurityContext, path *field.Path) {
	if m.MountPropagation != nil {
		at := path.Child("mountPropagation")
		c.add(notSupportedIn(at, *m.MountPropagation,
			corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)...)
		privileged := security != nil && security.Privileged != nil && *security.Privileged
		if *m.MountPropagation == corev1.MountPropagationBidirectional && !privileged {
			c.add(field.Forbidden(at, "Bidirectional mount propagation is available only to privileged containers"))
		}
	}
	if m.RecursiveReadOnly == nil {
		return
	}
	at := path.Child("recursiveReadOnly")
	c.add(notSupportedIn(at, *m.RecursiveReadOnly,
		corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)...)
	if *m.RecursiveReadOnly != corev1.RecursiveReadOnlyEnabled && *m.RecursiveReadOnly != corev1.RecursiveReadOnlyIfPossible {
		return
	}
	if !m.ReadOnly {
		c.add(field.Forbidden(at, "may only be specified when readOnly is true"))
	}
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		c.add(field.Forbidden(at, "may only be specified when mountPropagation is None or not specified"))
	}
}

// checkDevices checks the volumes that a container sees as block devices: only claims can be that.
func (c *checker) checkDevices(container *corev1.Container, path *field.Path) {
	mountNames, mountPaths := sets.New[string](), sets.New[string]()
	for _, m := range container.VolumeMounts {
		mountNames.Insert(m.Name)
		mountPaths.Insert(m.MountPath)
	}
	names, paths := sets.New[string](), sets.New[string]()
	for i, d := range container.VolumeDevices {
		at := path.Index(i)
		if d.Name == "" {
			c.add(field.Required(at.Child("name"), ""))
		} else if names.Has(d.Name) {
			c.add(field.Invalid(at.Child("name"), d.Name, "must be unique"))
		}
		names.Insert(d.Name)
		if source := c.volumes[d.Name]; source == nil {
			c.add(field.NotFound(at.Child("name"), d.Name))
		} else if source.PersistentVolumeClaim == nil && source.Ephemeral == nil {
			c.add(field.Invalid(at.Child("name"), d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		if d.DevicePath == "" {
			c.add(field.Required(at.Child("devicePath"), ""))
		}
		if paths.Has(d.DevicePath) {
			c.add(field.Invalid(at.Child("devicePath"), d.DevicePath, "must be unique"))
		}
		if hasBackstep(d.DevicePath) {
			c.add(field.Invalid(at.Child("devicePath"), d.DevicePath, "can not contain backsteps ('..')"))
		} else {
			paths.Insert(d.DevicePath)
		}
		if mountNames.Has(d.Name) {
			c.add(field.Invalid(at.Child("name"), d.Name, "must not already exist in volumeMounts"))
		}
		if mountPaths.Has(d.DevicePath) {
			c.add(field.Invalid(at.Child("devicePath"), d.DevicePath, "must not already exist as a path in volumeMounts"))
		}
	}
}
