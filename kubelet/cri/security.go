package cri

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet"
)

// Security contexts, after upstream's pkg/kubelet/kuberuntime/security_context.go and pkg/securitycontext.

func (r *Runtime) sandboxSecurity(pod *corev1.Pod, options kubelet.SandboxOptions) (*runtimeapi.LinuxSandboxSecurityContext, error) {
	confined := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	if r.noSeccomp.Load() { // the process is the pause program: nobody's choice, and nobody's code
		confined = unconfined()
	}
	security := &runtimeapi.LinuxSandboxSecurityContext{
		Privileged: slices.ContainsFunc(allContainers(pod), func(c *corev1.Container) bool {
			return c.SecurityContext != nil && isTrue(c.SecurityContext.Privileged)
		}),
		Seccomp:            confined, // the pause process needs no more, whatever the containers need
		NamespaceOptions:   namespaces(pod, options),
		SupplementalGroups: groups(pod, options.Groups),
	}
	sc := pod.Spec.SecurityContext
	if sc == nil {
		return security, nil
	}
	security.RunAsUser, security.RunAsGroup = number(sc.RunAsUser), number(sc.RunAsGroup)
	security.SelinuxOptions = toSELinux(sc.SELinuxOptions)
	policy, err := groupsPolicy(sc)
	security.SupplementalGroupsPolicy = policy
	return security, err
}

func (r *Runtime) containerSecurity(pod *corev1.Pod, c *corev1.Container, user imageUser, options kubelet.ContainerOptions, around kubelet.SandboxOptions) (*runtimeapi.LinuxContainerSecurityContext, error) {
	own, of := c.SecurityContext, pod.Spec.SecurityContext
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	if of == nil {
		of = &corev1.PodSecurityContext{}
	}
	security := &runtimeapi.LinuxContainerSecurityContext{
		Privileged:         isTrue(own.Privileged),
		ReadonlyRootfs:     isTrue(own.ReadOnlyRootFilesystem),
		NoNewPrivs:         own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation,
		RunAsUser:          number(or(own.RunAsUser, of.RunAsUser)),
		RunAsGroup:         number(or(own.RunAsGroup, of.RunAsGroup)),
		SelinuxOptions:     toSELinux(or(own.SELinuxOptions, of.SELinuxOptions)),
		NamespaceOptions:   namespaces(pod, around),
		SupplementalGroups: groups(pod, options.Groups),
	}
	if security.RunAsUser == nil {
		security.RunAsUser, security.RunAsUsername = number(user.uid), user.name
	}
	if capabilities := own.Capabilities; capabilities != nil {
		security.Capabilities = &runtimeapi.Capability{AddCapabilities: texts(capabilities.Add), DropCapabilities: texts(capabilities.Drop)}
	}
	if own.ProcMount == nil || *own.ProcMount != corev1.UnmaskedProcMount {
		security.MaskedPaths, security.ReadonlyPaths = maskedPaths(), readonlyPaths()
	}
	if options.Target != "" {
		security.NamespaceOptions.Pid, security.NamespaceOptions.TargetId = runtimeapi.NamespaceMode_TARGET, bare(options.Target)
	}
	var failed [3]error
	security.Seccomp, failed[0] = r.seccomp(or(own.SeccompProfile, of.SeccompProfile), security.Privileged)
	security.Apparmor, failed[1] = apparmor(or(own.AppArmorProfile, of.AppArmorProfile))
	security.SupplementalGroupsPolicy, failed[2] = groupsPolicy(of)
	return security, errors.Join(failed[:]...)
}

// verifyNonRoot keeps the promise of runAsNonRoot. Its errors are upstream's.
func verifyNonRoot(pod *corev1.Pod, c *corev1.Container, user imageUser) error {
	var nonRoot *bool
	var uid *int64
	if sc := pod.Spec.SecurityContext; sc != nil {
		nonRoot, uid = sc.RunAsNonRoot, sc.RunAsUser
	}
	if sc := c.SecurityContext; sc != nil {
		nonRoot, uid = or(sc.RunAsNonRoot, nonRoot), or(sc.RunAsUser, uid)
	}
	switch {
	case !isTrue(nonRoot):
	case uid != nil:
		if *uid == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy (pod: %q, container: %s)", describe(pod), c.Name)
		}
	case user.uid != nil && *user.uid == 0:
		return fmt.Errorf("container has runAsNonRoot and image will run as root (pod: %q, container: %s)", describe(pod), c.Name)
	case user.uid == nil && user.name != "":
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root (pod: %q, container: %s)", user.name, describe(pod), c.Name)
	}
	return nil
}

// namespaces says which namespaces of the node or of the pod its containers share.
func namespaces(pod *corev1.Pod, options kubelet.SandboxOptions) *runtimeapi.NamespaceOption {
	n := &runtimeapi.NamespaceOption{
		Network: runtimeapi.NamespaceMode_POD, Ipc: runtimeapi.NamespaceMode_POD, Pid: runtimeapi.NamespaceMode_CONTAINER,
	}
	if pod.Spec.HostNetwork {
		n.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		n.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		n.Pid = runtimeapi.NamespaceMode_NODE
	case isTrue(pod.Spec.ShareProcessNamespace):
		n.Pid = runtimeapi.NamespaceMode_POD
	}
	if ids := options.UserNamespace; ids != nil {
		mapping := []*runtimeapi.IDMapping{{HostId: ids.First, ContainerId: 0, Length: ids.Length}}
		n.UsernsOptions = &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: mapping, Gids: mapping}
	}
	return n
}

// groups are the supplemental groups of all processes of a pod.
func groups(pod *corev1.Pod, ofVolumes []int64) []int64 {
	var all []int64
	sc := pod.Spec.SecurityContext
	if sc != nil && sc.FSGroup != nil {
		all = append(all, *sc.FSGroup)
	}
	all = append(all, ofVolumes...)
	if sc != nil {
		all = append(all, sc.SupplementalGroups...)
	}
	return all
}

func groupsPolicy(sc *corev1.PodSecurityContext) (runtimeapi.SupplementalGroupsPolicy, error) {
	if sc.SupplementalGroupsPolicy == nil {
		return runtimeapi.SupplementalGroupsPolicy_Merge, nil
	}
	policy, known := runtimeapi.SupplementalGroupsPolicy_value[string(*sc.SupplementalGroupsPolicy)]
	if !known {
		return 0, fmt.Errorf("unsupported supplementalGroupsPolicy: %s", *sc.SupplementalGroupsPolicy)
	}
	return runtimeapi.SupplementalGroupsPolicy(policy), nil
}

// errNoSeccomp says that a container cannot have the filter of system calls that its pod, or --seccomp-default, wants for it.
var errNoSeccomp = errors.New("seccomp is not supported: the container runtime of this node cannot filter system calls, and the container's seccomp profile RuntimeDefault needs that")

// seccomp says which system calls a container may make: all where neither the pod nor --seccomp-default says something. It fails where
// the runtime cannot filter them as it should: a container that is to be confined does not run unconfined. Runtimes do not filter the
// calls of privileged containers.
func (r *Runtime) seccomp(profile *corev1.SeccompProfile, privileged bool) (*runtimeapi.SecurityProfile, error) {
	kind := corev1.SeccompProfileTypeUnconfined
	if r.config.SeccompDefault {
		kind = corev1.SeccompProfileTypeRuntimeDefault
	}
	if profile != nil {
		kind = profile.Type
	}
	switch kind {
	case corev1.SeccompProfileTypeRuntimeDefault:
		switch {
		case !r.noSeccomp.Load():
			return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
		case !privileged:
			return nil, errNoSeccomp
		}
		return unconfined(), nil
	case corev1.SeccompProfileTypeLocalhost:
		if profile.LocalhostProfile == nil || *profile.LocalhostProfile == "" {
			return nil, errors.New("localhostProfile must be set if seccompProfile type is Localhost.")
		}
		return &runtimeapi.SecurityProfile{
			ProfileType:  runtimeapi.SecurityProfile_Localhost,
			LocalhostRef: filepath.Join(r.config.RootDir, "seccomp", *profile.LocalhostProfile),
		}, nil
	}
	return unconfined(), nil
}

func unconfined() *runtimeapi.SecurityProfile {
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
}

// apparmor leaves the choice to the runtime where the pod says nothing.
func apparmor(profile *corev1.AppArmorProfile) (*runtimeapi.SecurityProfile, error) {
	switch {
	case profile == nil:
		return nil, nil
	case profile.Type == corev1.AppArmorProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case profile.Type == corev1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case profile.LocalhostProfile == nil:
		return nil, errors.New("missing localhost apparmor profile name")
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: *profile.LocalhostProfile}, nil
}

func toSELinux(options *corev1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if options == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: options.User, Role: options.Role, Type: options.Type, Level: options.Level}
}

// maskedPaths cannot be seen in a container with procMount Default.
func maskedPaths() []string {
	paths := []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	throttles, _ := filepath.Glob("/sys/devices/system/cpu/cpu*/thermal_throttle") // the pattern is well formed
	return append(paths, throttles...)
}

// readonlyPaths cannot be written in a container with procMount Default.
func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// allContainers are the containers of a pod of all sorts.
func allContainers(pod *corev1.Pod) []*corev1.Container {
	var all []*corev1.Container
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		all = append(all, (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return all
}

func isTrue(b *bool) bool { return b != nil && *b }

func or[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}

func number(n *int64) *runtimeapi.Int64Value {
	if n == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *n}
}

func texts(capabilities []corev1.Capability) []string {
	names := make([]string, 0, len(capabilities))
	for _, c := range capabilities {
		names = append(names, string(c))
	}
	return names
}
