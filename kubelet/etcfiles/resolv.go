package etcfiles

import (
	"bufio"
	"errors"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"vigil/kubelet"
)

// Limits of what resolvers take (pkg/apis/core/validation).
const (
	serversLimit    = 3
	searchesLimit   = 32
	searchLineLimit = 2048 // characters, the spaces between the domains included
	fileLimit       = 10 << 20
)

// Resolver makes the DNS settings of pods. Its fields do not change once it is in use.
type Resolver struct {
	ClusterDNS    []string // addresses of the cluster's name servers; none: its pods resolve as the node does
	ClusterDomain string   // "cluster.local"; "": none is searched
	// ResolvConf is the file that the node resolves names with (--resolv-conf); "": pods ask their own loopback address.
	ResolvConf string
	NodeIPs    []string
}

// Config returns the DNS settings of a pod by its dnsPolicy, with its dnsConfig merged in, cut to what resolvers take. warnings say
// what was cut.
func (r *Resolver) Config(pod *corev1.Pod) (dns kubelet.DNS, warnings []string, err error) {
	if r.ResolvConf != "" {
		file, err := os.Open(r.ResolvConf)
		if err != nil {
			return kubelet.DNS{}, nil, err
		}
		dns, err = parseResolvConf(io.LimitReader(file, fileLimit))
		_ = file.Close()
		if err != nil {
			return kubelet.DNS{}, nil, err
		}
	}
	switch pod.Spec.DNSPolicy {
	case corev1.DNSNone:
		dns = kubelet.DNS{}
	case corev1.DNSDefault:
		r.host(&dns)
	case corev1.DNSClusterFirst:
		if pod.Spec.HostNetwork {
			r.host(&dns)
			break
		}
		r.cluster(pod, &dns)
	default:
		r.cluster(pod, &dns)
	}
	if more := pod.Spec.DNSConfig; more != nil {
		dns.Servers = unique(slices.Concat(dns.Servers, more.Nameservers))
		dns.Searches = unique(slices.Concat(dns.Searches, more.Searches))
		dns.Options = mergeOptions(dns.Options, more.Options)
	}
	dns, warnings = fit(dns)
	return dns, warnings, nil
}

// host completes the settings of a pod that resolves as the node does.
func (r *Resolver) host(dns *kubelet.DNS) {
	if r.ResolvConf != "" {
		return
	}
	for _, ip := range r.NodeIPs {
		if addr, err := netip.ParseAddr(ip); err == nil && addr.Is6() {
			dns.Servers = append(dns.Servers, "::1")
		} else {
			dns.Servers = append(dns.Servers, "127.0.0.1")
		}
	}
	if len(dns.Servers) == 0 {
		dns.Servers = []string{"127.0.0.1"}
	}
	dns.Searches = []string{"."}
}

// cluster makes the settings of a pod that asks the cluster's name servers, of the node's. Without any it asks the node's.
func (r *Resolver) cluster(pod *corev1.Pod, dns *kubelet.DNS) {
	if len(r.ClusterDNS) == 0 {
		r.host(dns)
		return
	}
	dns.Servers = slices.Clone(r.ClusterDNS)
	dns.Options = []string{"ndots:5"}
	if r.ClusterDomain != "" {
		own := []string{pod.Namespace + ".svc." + r.ClusterDomain, "svc." + r.ClusterDomain, r.ClusterDomain}
		dns.Searches = unique(append(own, dns.Searches...))
	}
}

// missing says whether a pod wants the cluster's name servers and there are none.
func (r *Resolver) missing(pod *corev1.Pod) bool {
	switch pod.Spec.DNSPolicy {
	case corev1.DNSNone, corev1.DNSDefault:
		return false
	case corev1.DNSClusterFirst:
		return len(r.ClusterDNS) == 0 && !pod.Spec.HostNetwork
	}
	return len(r.ClusterDNS) == 0
}

// fit cuts the settings to the limits, and says so in upstream's words.
func fit(dns kubelet.DNS) (fits kubelet.DNS, warnings []string) {
	if len(dns.Servers) > serversLimit {
		dns.Servers = dns.Servers[:serversLimit]
		warnings = append(warnings, "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "+strings.Join(dns.Servers, " "))
	}
	searches := dns.Searches[:min(len(dns.Searches), searchesLimit)]
	kept, length := make([]string, 0, len(searches)), -1
	for _, s := range searches {
		if len(s) > validation.DNS1123SubdomainMaxLength {
			continue // there are resolvers that die of it
		}
		if length+1+len(s) > searchLineLimit {
			break
		}
		kept, length = append(kept, s), length+1+len(s)
	}
	if len(kept) < len(dns.Searches) {
		warnings = append(warnings, "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "+strings.Join(kept, " "))
	}
	dns.Searches = kept
	return dns, warnings
}

// parseResolvConf reads name servers, which add up, and search domains and options, of which the last line counts.
func parseResolvConf(from io.Reader) (dns kubelet.DNS, err error) {
	in := bufio.NewScanner(from)
	in.Buffer(nil, fileLimit)
	for in.Scan() {
		fields := strings.Fields(in.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		switch values := fields[1:]; fields[0] {
		case "nameserver":
			if len(values) == 0 {
				err = errors.New("nameserver list is empty ")
				continue
			}
			dns.Servers = append(dns.Servers, values[0])
		case "search":
			dns.Searches = nil
			for _, s := range values {
				if s != "." {
					s = strings.TrimSuffix(s, ".") // the same domain counts once
				}
				dns.Searches = append(dns.Searches, s)
			}
		case "options":
			dns.Options = values
		}
	}
	return dns, errors.Join(err, in.Err())
}

// unique leaves out what has been there before.
func unique(of []string) []string {
	kept := of[:0]
	for _, s := range of {
		if !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// mergeOptions puts a pod's options over others, by name.
func mergeOptions(options []string, over []corev1.PodDNSConfigOption) []string {
	var merged []string
	set := func(name, option string) {
		at := slices.IndexFunc(merged, func(have string) bool {
			has, _, _ := strings.Cut(have, ":")
			return has == name
		})
		if at >= 0 {
			merged[at] = option
			return
		}
		merged = append(merged, option)
	}
	for _, option := range options {
		name, _, _ := strings.Cut(option, ":")
		set(name, option)
	}
	for _, o := range over {
		if o.Value != nil && *o.Value != "" {
			set(o.Name, o.Name+":"+*o.Value)
		} else {
			set(o.Name, o.Name)
		}
	}
	return merged
}
