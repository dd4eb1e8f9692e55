package core

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// repackSubsets brings endpoints into their one canonical form, so that whoever compares two of them sees only real
// differences: ports that have the same addresses share a subset, an address that is both ready and not ready is
// ready, and everything is sorted. The same information in, the same subsets out:
//
//	{10.0.0.1: 80, 81} {10.0.0.2: 80}   becomes   {10.0.0.1, 10.0.0.2: 80} {10.0.0.1: 81}
//
// A subset without ports stays one without ports. Empty subsets are left for validation to reject.
func repackSubsets(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	type portAddresses struct {
		port  *corev1.EndpointPort // nil: no port at all
		ready map[string]bool      // by address key
	}
	addresses := map[string]corev1.EndpointAddress{}
	ports := map[string]*portAddresses{}
	var result []corev1.EndpointSubset

	collect := func(port *corev1.EndpointPort, list []corev1.EndpointAddress, ready bool) {
		key := ""
		if port != nil {
			key = portKey(*port)
		}
		group := ports[key]
		if group == nil {
			group = &portAddresses{port: port, ready: map[string]bool{}}
			ports[key] = group
		}
		for _, a := range list {
			k := addressKey(a)
			if _, known := addresses[k]; !known {
				addresses[k] = a
			}
			group.ready[k] = group.ready[k] || ready
		}
	}
	for _, subset := range subsets {
		if len(subset.Addresses) == 0 && len(subset.NotReadyAddresses) == 0 {
			result = append(result, subset)
			continue
		}
		if len(subset.Ports) == 0 {
			collect(nil, subset.Addresses, true)
			collect(nil, subset.NotReadyAddresses, false)
		}
		for i := range subset.Ports {
			collect(&subset.Ports[i], subset.Addresses, true)
			collect(&subset.Ports[i], subset.NotReadyAddresses, false)
		}
	}

	bySet := map[string]*corev1.EndpointSubset{}
	for _, key := range sortedKeys(ports) {
		group := ports[key]
		keys := sortedKeys(group.ready)
		set := fmt.Sprint(group.port == nil, keys)
		for _, k := range keys {
			set += fmt.Sprint(group.ready[k])
		}
		subset := bySet[set]
		if subset == nil {
			subset = &corev1.EndpointSubset{}
			for _, k := range keys {
				if group.ready[k] {
					subset.Addresses = append(subset.Addresses, addresses[k])
				} else {
					subset.NotReadyAddresses = append(subset.NotReadyAddresses, addresses[k])
				}
			}
			bySet[set] = subset
		}
		if group.port != nil {
			subset.Ports = append(subset.Ports, *group.port)
		}
	}
	for _, set := range sortedKeys(bySet) {
		result = append(result, *bySet[set])
	}
	return result
}

// addressKey tells addresses apart: the same IP may stand for two pods in turn.
func addressKey(a corev1.EndpointAddress) string {
	if a.TargetRef != nil {
		return a.IP + " " + string(a.TargetRef.UID)
	}
	return a.IP + " "
}

func portKey(p corev1.EndpointPort) string {
	app := ""
	if p.AppProtocol != nil {
		app = "=" + *p.AppProtocol
	}
	return fmt.Sprintf("%s/%05d/%s/%s", p.Name, p.Port, p.Protocol, app)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
