package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkOS checks the operating system that the pod is for, and that nothing is set that only the other one has.
func (c *checker) checkOS(path *field.Path) {
	if c.spec.OS == nil {
		return
	}
	switch c.spec.OS.Name {
	case "":
		c.add(field.Required(path.Child("os", "name"), "cannot be empty"))
	case corev1.Linux:
		c.forbidWindowsFields(path)
	case corev1.Windows:
		c.forbidLinuxFields(path)
	default:
		c.add(field.NotSupported(path.Child("os"), c.spec.OS.Name, []corev1.OSName{corev1.Linux, corev1.Windows}))
	}
}

func (c *checker) forbidWindowsFields(path *field.Path) {
	const text = "windows options cannot be set for a linux pod"
	if s := c.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		c.add(field.Forbidden(path.Child("securityContext", "windowsOptions"), text))
	}
	VisitContainers(c.spec, path, func(container *corev1.Container, at *field.Path) {
		if s := container.SecurityContext; s != nil && s.WindowsOptions != nil {
			c.add(field.Forbidden(at.Child("securityContext", "windowsOptions"), text))
		}
	})
}

// setField is a field by name and whether something is in it.
type setField struct {
	name string
	set  bool
}

func (c *checker) forbid(fields []setField, text string, path *field.Path) {
	for _, f := range fields {
		if f.set {
			c.add(field.Forbidden(path.Child(f.name), text))
		}
	}
}

func (c *checker) forbidLinuxFields(path *field.Path) {
	const text = "cannot be set for a windows pod"
	c.forbid([]setField{
		{"hostUsers", c.spec.HostUsers != nil},
		{"hostPID", c.spec.HostPID},
		{"hostIPC", c.spec.HostIPC},
		{"shareProcessNamespace", c.spec.ShareProcessNamespace != nil},
	}, text, path)
	if s := c.spec.SecurityContext; s != nil {
		c.forbid([]setField{
			{"appArmorProfile", s.AppArmorProfile != nil},
			{"seLinuxOptions", s.SELinuxOptions != nil},
			{"seccompProfile", s.SeccompProfile != nil},
			{"fsGroup", s.FSGroup != nil},
			{"fsGroupChangePolicy", s.FSGroupChangePolicy != nil},
			{"sysctls", len(s.Sysctls) > 0},
			{"runAsUser", s.RunAsUser != nil},
			{"runAsGroup", s.RunAsGroup != nil},
			{"supplementalGroups", s.SupplementalGroups != nil},
			{"supplementalGroupsPolicy", s.SupplementalGroupsPolicy != nil},
			{"seLinuxChangePolicy", s.SELinuxChangePolicy != nil},
		}, text, path.Child("securityContext"))
	}
	VisitContainers(c.spec, path, func(container *corev1.Container, at *field.Path) {
		s := container.SecurityContext
		if s == nil {
			return
		}
		c.forbid([]setField{
			{"appArmorProfile", s.AppArmorProfile != nil},
			{"seLinuxOptions", s.SELinuxOptions != nil},
			{"seccompProfile", s.SeccompProfile != nil},
			{"capabilities", s.Capabilities != nil},
			{"readOnlyRootFilesystem", s.ReadOnlyRootFilesystem != nil},
			{"privileged", s.Privileged != nil},
			{"allowPrivilegeEscalation", s.AllowPrivilegeEscalation != nil},
			{"procMount", s.ProcMount != nil},
			{"runAsUser", s.RunAsUser != nil},
			{"runAsGroup", s.RunAsGroup != nil},
		}, text, at.Child("securityContext"))
	})
}
