package etcfiles

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	hostnameLimit = 63 // of a host name; the kernel has room for 64 bytes with the zero behind it
	fqdnLimit     = 64
)

// Name is what a pod calls itself.
type Name struct {
	Host   string // the short name
	Domain string // "" unless the pod has a subdomain: "db.default.svc.cluster.local"
}

// NameOf makes the name of a pod of its name, its hostname and subdomain, or its hostnameOverride (KEP-4762). Names that are too
// long are cut.
func NameOf(pod *corev1.Pod, clusterDomain string) (Name, error) {
	if override := pod.Spec.HostnameOverride; override != nil {
		if wrong := validation.IsDNS1123Subdomain(*override); len(wrong) > 0 {
			return Name{}, fmt.Errorf("pod HostnameOverride %q is not a valid DNS subdomain: %s", *override, strings.Join(wrong, ";"))
		}
		host, err := cut(pod, *override)
		return Name{Host: host}, err
	}
	host := pod.Name
	if pod.Spec.Hostname != "" {
		if wrong := validation.IsDNS1123Label(pod.Spec.Hostname); len(wrong) > 0 {
			return Name{}, fmt.Errorf("pod Hostname %q is not a valid DNS label: %s", pod.Spec.Hostname, strings.Join(wrong, ";"))
		}
		host = pod.Spec.Hostname
	}
	host, err := cut(pod, host)
	if err != nil {
		return Name{}, err
	}
	name := Name{Host: host}
	if pod.Spec.Subdomain != "" {
		if wrong := validation.IsDNS1123Label(pod.Spec.Subdomain); len(wrong) > 0 {
			return Name{}, fmt.Errorf("pod Subdomain %q is not a valid DNS label: %s", pod.Spec.Subdomain, strings.Join(wrong, ";"))
		}
		name.Domain = pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + clusterDomain
	}
	return name, nil
}

func cut(pod *corev1.Pod, host string) (string, error) {
	if len(host) <= hostnameLimit {
		return host, nil
	}
	short := strings.TrimRight(host[:hostnameLimit], "-.")
	if short == "" {
		return "", fmt.Errorf("hostname for pod %q was invalid: %q", pod.Name, host)
	}
	return short, nil
}

// Kernel is what the kernel is told of the name of a pod with a network of its own: the short name, or all of it with
// setHostnameAsFQDN. It is "" for pods of the host's network.
func (n Name) Kernel(pod *corev1.Pod) (string, error) {
	switch {
	case pod.Spec.HostNetwork:
		return "", nil
	case n.Domain == "" || pod.Spec.SetHostnameAsFQDN == nil || !*pod.Spec.SetHostnameAsFQDN:
		return n.Host, nil
	}
	full := n.Host + "." + n.Domain
	if len(full) > fqdnLimit {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)",
			full, fqdnLimit, len(full))
	}
	return full, nil
}
