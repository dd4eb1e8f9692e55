package podspec

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/node/util/sysctl"
)

// hostUsers says whether the pod's users are the host's, which they are unless the pod has a user namespace.
func (c *checker) hostUsers() bool { return c.spec.HostUsers == nil || *c.spec.HostUsers }

// checkPodSecurity checks the security context of the pod as a whole.
func (c *checker) checkPodSecurity(specPath *field.Path) {
	s := c.spec.SecurityContext
	if s == nil {
		return
	}
	path := specPath.Child("securityContext")
	c.checkID(s.FSGroup, validation.IsValidGroupID, path, "fsGroup")
	c.checkID(s.RunAsUser, validation.IsValidUserID, path, "runAsUser")
	c.checkID(s.RunAsGroup, validation.IsValidGroupID, path, "runAsGroup")
	for i := range s.SupplementalGroups {
		c.checkIDAt(&s.SupplementalGroups[i], validation.IsValidGroupID, path, "supplementalGroups", i)
	}
	if share := c.spec.ShareProcessNamespace; share != nil && *share && c.spec.HostPID {
		c.add(field.Invalid(path.Child("shareProcessNamespace"), *share, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	if len(s.Sysctls) > 0 {
		c.checkSysctls(s.Sysctls, path.Child("sysctls"))
	}
	if s.FSGroupChangePolicy != nil {
		c.add(notSupportedIn(path.Child("fsGroupChangePolicy"), *s.FSGroupChangePolicy, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)...)
	}
	if s.SeccompProfile != nil {
		c.checkSeccomp(s.SeccompProfile, path.Child("seccompProfile"))
	}
	if s.WindowsOptions != nil {
		c.checkWindowsOptions(s.WindowsOptions, path.Child("windowsOptions"))
	}
	if s.AppArmorProfile != nil {
		c.checkAppArmor(s.AppArmorProfile, path.Child("appArmorProfile"))
	}
	if s.SupplementalGroupsPolicy != nil {
		c.add(notSupportedIn(path.Child("supplementalGroupsPolicy"), *s.SupplementalGroupsPolicy, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	}
	if s.SELinuxChangePolicy != nil {
		c.add(notSupportedIn(path.Child("seLinuxChangePolicy"), *s.SELinuxChangePolicy, corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive)...)
	}
}

// checkID checks the field called name under path.
func (c *checker) checkID(id *int64, check func(int64) []string, path *field.Path, name string) {
	if id == nil {
		return
	}
	for _, text := range check(*id) {
		c.add(field.Invalid(path.Child(name), *id, text))
	}
}

// checkIDAt is checkID for an element of a list.
func (c *checker) checkIDAt(id *int64, check func(int64) []string, path *field.Path, name string, i int) {
	for _, text := range check(*id) {
		c.add(field.Invalid(path.Child(name).Index(i), *id, text))
	}
}

func (c *checker) checkContainerSecurity(s *corev1.SecurityContext, path *field.Path) {
	if s == nil {
		return
	}
	c.checkID(s.RunAsUser, validation.IsValidUserID, path, "runAsUser")
	c.checkID(s.RunAsGroup, validation.IsValidGroupID, path, "runAsGroup")
	if s.ProcMount != nil {
		c.add(notSupportedIn(path.Child("procMount"), *s.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
		if c.hostUsers() && *s.ProcMount == corev1.UnmaskedProcMount {
			c.add(field.Invalid(path.Child("procMount"), *s.ProcMount, "`hostUsers` must be false to use `Unmasked`"))
		}
	}
	if s.SeccompProfile != nil {
		c.checkSeccomp(s.SeccompProfile, path.Child("seccompProfile"))
	}
	if s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
		if s.Privileged != nil && *s.Privileged {
			c.add(field.Invalid(path, s, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
		if s.Capabilities != nil {
			for _, capability := range s.Capabilities.Add {
				if capability == "CAP_SYS_ADMIN" {
					c.add(field.Invalid(path, s, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
				}
			}
		}
	}
	if s.WindowsOptions != nil {
		c.checkWindowsOptions(s.WindowsOptions, path.Child("windowsOptions"))
	}
	if s.AppArmorProfile != nil {
		c.checkAppArmor(s.AppArmorProfile, path.Child("appArmorProfile"))
	}
}

// checkHostUsers keeps pods with a user namespace out of the host's other namespaces (KEP-127).
func (c *checker) checkHostUsers(path *field.Path) {
	if c.hostUsers() {
		return
	}
	const text = "when `pod.Spec.HostUsers` is false"
	if c.spec.HostNetwork {
		c.add(field.Forbidden(path.Child("hostNetwork"), text))
	}
	if c.spec.HostPID {
		c.add(field.Forbidden(path.Child("HostPID"), text))
	}
	if c.spec.HostIPC {
		c.add(field.Forbidden(path.Child("HostIPC"), text))
	}
}

const maxSysctl = 253

// sysctlName is the form of sysctl names, with dots or slashes.
var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

func (c *checker) checkSysctls(sysctls []corev1.Sysctl, path *field.Path) {
	seen := sets.New[string]()
	for i, s := range sysctls {
		at := path.Index(i).Child("name")
		switch {
		case s.Name == "":
			c.add(field.Required(at, ""))
		case len(s.Name) > maxSysctl || !sysctlName.MatchString(s.Name):
			c.add(field.Invalid(at, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctl, sysctlName)))
		case seen.Has(s.Name):
			c.add(field.Duplicate(at, s.Name))
		}
		seen.Insert(s.Name)
	}
	if !c.tolerate.hostSysctls {
		c.checkHostSysctls(path)
	}
}

// checkHostSysctls rejects sysctls of a namespace that is the host's. The rule came late.
func (c *checker) checkHostSysctls(path *field.Path) {
	if c.spec.SecurityContext == nil {
		return
	}
	for i, s := range c.spec.SecurityContext.Sysctls {
		at := path.Index(i).Child("name")
		switch namespace, _, _ := sysctl.GetNamespace(s.Name); {
		case c.spec.HostNetwork && namespace == sysctl.NetNamespace:
			c.add(field.Invalid(at, s.Name, "may not be specified when 'hostNetwork' is true"))
		case c.spec.HostIPC && namespace == sysctl.IPCNamespace:
			c.add(field.Invalid(at, s.Name, "may not be specified when 'hostIPC' is true"))
		}
	}
}

// ValidateLinuxUser checks the user and the groups that a container is reported to run as.
func ValidateLinuxUser(u *corev1.LinuxContainerUser, path *field.Path) field.ErrorList {
	c := &checker{}
	c.checkID(&u.UID, validation.IsValidUserID, path, "uid")
	c.checkID(&u.GID, validation.IsValidGroupID, path, "gid")
	for i := range u.SupplementalGroups {
		c.checkIDAt(&u.SupplementalGroups[i], validation.IsValidGroupID, path, "supplementalGroups", i)
	}
	return c.errs
}
