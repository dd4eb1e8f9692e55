package admit

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet"
)

// safeSysctls concern the pod alone and cost the node nothing (pkg/kubelet/sysctl/safe_sysctls.go).
var safeSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
	"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}

// Sysctls admits pods that set only such kernel parameters as are their own, and safe or allowed here.
type Sysctls struct {
	exact    map[string]string // namespace of the kernel by name
	prefixes map[string]string
}

var _ kubelet.Admitter = (*Sysctls)(nil)

// NewSysctls allows the safe ones and those given: names, or prefixes that end with a star ("net.core.*",
// --allowed-unsafe-sysctls). It fails for one that would change the whole node.
func NewSysctls(unsafe []string) (*Sysctls, error) {
	s := &Sysctls{exact: map[string]string{}, prefixes: map[string]string{}}
	for _, pattern := range append(append([]string(nil), safeSysctls...), unsafe...) {
		name, many := strings.CutSuffix(dotted(pattern), "*")
		namespace := namespaceOf(name)
		if namespace == "" {
			return nil, fmt.Errorf("the sysctls %q are not known to be namespaced", pattern)
		}
		if many {
			s.prefixes[name] = namespace
		} else {
			s.exact[name] = namespace
		}
	}
	return s, nil
}

// namespaceOf is the namespace of the kernel that a parameter belongs to, "" when it is the whole node's.
func namespaceOf(name string) string {
	switch {
	case name == "kernel.sem", strings.HasPrefix(name, "kernel.shm"), strings.HasPrefix(name, "kernel.msg"), strings.HasPrefix(name, "fs.mqueue."):
		return "IPC"
	case strings.HasPrefix(name, "net."):
		return "Net"
	}
	return ""
}

// dotted writes a parameter with dots, whichever of dots and slashes comes first in it: the other one is part of a name then.
func dotted(name string) string {
	at := strings.IndexAny(name, "./")
	if at < 0 || name[at] == '.' {
		return name
	}
	return strings.NewReplacer(".", "/", "/", ".").Replace(name)
}

// Admit implements kubelet.Admitter.
func (s *Sysctls) Admit(pod *corev1.Pod, _ []*corev1.Pod) *kubelet.Refusal {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for _, set := range pod.Spec.SecurityContext.Sysctls {
		if err := s.check(pod, dotted(set.Name)); err != nil {
			return &kubelet.Refusal{Reason: "SysctlForbidden", Message: fmt.Sprintf("forbidden sysctl: %v", err)}
		}
	}
	return nil
}

func (s *Sysctls) check(pod *corev1.Pod, name string) error {
	namespace := s.exact[name]
	for prefix, of := range s.prefixes {
		if namespace == "" && strings.HasPrefix(name, prefix) {
			namespace = of
		}
	}
	switch {
	case namespace == "":
		return fmt.Errorf("%q not allowlisted", name)
	case namespace == "IPC" && pod.Spec.HostIPC, namespace == "Net" && pod.Spec.HostNetwork:
		return fmt.Errorf("%q not allowed with host %s enabled", name, namespace)
	}
	return nil
}
