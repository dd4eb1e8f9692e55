package etcfiles

import (
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet"
)

// Files makes the files of the pods of a node. It is a kubelet.Files. Its fields do not change once it is in use.
type Files struct {
	RootDir  string // the kubelet's; pods have their directories below it
	Resolver Resolver
}

var _ kubelet.Files = (*Files)(nil)

// Hostname implements kubelet.Files.
func (f *Files) Hostname(pod *corev1.Pod) (string, error) {
	name, err := NameOf(pod, f.Resolver.ClusterDomain)
	if err != nil {
		return "", err
	}
	return name.Kernel(pod)
}

// DNS implements kubelet.Files.
func (f *Files) DNS(pod *corev1.Pod) (dns *kubelet.DNS, warnings []kubelet.Warning, err error) {
	made, cut, err := f.Resolver.Config(pod)
	if err != nil {
		return nil, nil, fmt.Errorf("make DNS settings: %w", err)
	}
	if f.Resolver.missing(pod) {
		warnings = append(warnings, kubelet.Warning{Reason: "MissingClusterDNS", Message: fmt.Sprintf(
			"pod: %q. kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to %q policy.",
			fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID), corev1.DNSClusterFirst, corev1.DNSDefault)})
	}
	for _, message := range cut {
		warnings = append(warnings, kubelet.Warning{Reason: "DNSConfigForming", Message: message})
	}
	return &made, warnings, nil
}

// Mounts implements kubelet.Files.
func (f *Files) Mounts(pod *corev1.Pod, container *corev1.Container) ([]kubelet.Mount, error) {
	ips := make([]string, len(pod.Status.PodIPs))
	for i, ip := range pod.Status.PodIPs {
		ips[i] = ip.IP
	}
	if !wantsHosts(container, ips) {
		return nil, nil
	}
	name, err := NameOf(pod, f.Resolver.ClusterDomain)
	if err != nil {
		return nil, err
	}
	directory := filepath.Join(f.RootDir, "pods", string(pod.UID))
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return nil, fmt.Errorf("make the pod's directory: %w", err)
	}
	file := filepath.Join(directory, "etc-hosts")
	if err := writeHosts(file, pod, name, ips); err != nil {
		return nil, fmt.Errorf("write the pod's hosts file: %w", err)
	}
	return []kubelet.Mount{{HostPath: file, ContainerPath: hostsPath, SELinuxRelabel: true}}, nil
}
