package core

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// repackSubsets brings endpoints into their one canonical form, so that whoever compares two of them sees only real
// differences: ports that have the same addresses share a subset, an address that is both ready and not ready is
// ready, and everything is sorted. The same information in, the same subsets out:
//
//	{10.0.0.1: 80, 81} {10.0.0.2: 80}   becomes   {10.0.0.1, 10.0.0.2: 80} {10.0.0.1: 81}
//
// A subset without ports stays one without ports. Empty subsets are left for validation to reject, and so are those whose form would be
// larger than anything that can be stored: ports that stand in many subsets, each in others, multiply the addresses.
func repackSubsets(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	groups := groupPorts(subsets)
	if repackedSize(subsets, groups) > maxRepacked {
		return subsets
	}
	addresses := map[string]corev1.EndpointAddress{}
	var result []corev1.EndpointSubset
	for _, subset := range subsets {
		if len(subset.Addresses) == 0 && len(subset.NotReadyAddresses) == 0 {
			result = append(result, subset)
		}
		for _, list := range [][]corev1.EndpointAddress{subset.Addresses, subset.NotReadyAddresses} {
			for _, a := range list {
				if k := addressKey(a); addresses[k].IP == "" {
					addresses[k] = a
				}
			}
		}
	}
	bySet := map[string]*corev1.EndpointSubset{}
	for _, group := range groups {
		ready := map[string]bool{} // by address key
		for _, i := range group.subsets {
			for _, a := range subsets[i].Addresses {
				ready[addressKey(a)] = true
			}
			for _, a := range subsets[i].NotReadyAddresses {
				if k := addressKey(a); !ready[k] {
					ready[k] = false
				}
			}
		}
		keys := sortedKeys(ready)
		set := setKey(len(group.ports) == 0, keys, ready)
		subset := bySet[set]
		if subset == nil {
			subset = &corev1.EndpointSubset{}
			for _, k := range keys {
				if ready[k] {
					subset.Addresses = append(subset.Addresses, addresses[k])
				} else {
					subset.NotReadyAddresses = append(subset.NotReadyAddresses, addresses[k])
				}
			}
			bySet[set] = subset
		}
		subset.Ports = append(subset.Ports, group.ports...)
	}
	for _, set := range sortedKeys(bySet) {
		subset := bySet[set]
		slices.SortFunc(subset.Ports, func(a, b corev1.EndpointPort) int { return strings.Compare(portKey(a), portKey(b)) })
		result = append(result, *subset)
	}
	return result
}

// maxRepacked is the most addresses of endpoints in their canonical form: more than etcd takes in one object.
const maxRepacked = 200_000

// repackedSize is the number of addresses that the canonical form has at most.
func repackedSize(subsets []corev1.EndpointSubset, groups []*portGroup) int {
	n := 0
	for _, group := range groups {
		for _, i := range group.subsets {
			n += len(subsets[i].Addresses) + len(subsets[i].NotReadyAddresses)
		}
	}
	return n
}

// portGroup is ports that stand in the same subsets, and so have the same addresses. It has no ports when the subsets have none.
type portGroup struct {
	ports   []corev1.EndpointPort
	subsets []int
}

// groupPorts finds out which ports of subsets with addresses stand in the same ones. It costs what the subsets are long.
func groupPorts(subsets []corev1.EndpointSubset) []*portGroup {
	portless := &portGroup{}
	single := map[string]*portGroup{} // by port
	for i, subset := range subsets {
		if len(subset.Addresses) == 0 && len(subset.NotReadyAddresses) == 0 {
			continue
		}
		if len(subset.Ports) == 0 {
			portless.subsets = append(portless.subsets, i)
		}
		for _, port := range subset.Ports {
			key := portKey(port)
			group := single[key]
			if group == nil {
				group = &portGroup{ports: []corev1.EndpointPort{port}}
				single[key] = group
			}
			if n := len(group.subsets); n == 0 || group.subsets[n-1] != i {
				group.subsets = append(group.subsets, i)
			}
		}
	}
	var groups []*portGroup
	if len(portless.subsets) > 0 {
		groups = append(groups, portless)
	}
	bySubsets := map[string]*portGroup{}
	for _, key := range sortedKeys(single) {
		group := single[key]
		var id []byte
		for _, i := range group.subsets {
			id = binary.AppendUvarint(id, uint64(i))
		}
		if same := bySubsets[string(id)]; same != nil {
			same.ports = append(same.ports, group.ports...)
			continue
		}
		bySubsets[string(id)] = group
		groups = append(groups, group)
	}
	return groups
}

// setKey tells sets of addresses apart, and puts them into an order.
func setKey(portless bool, keys []string, ready map[string]bool) string {
	var b strings.Builder
	fmt.Fprint(&b, portless, keys)
	for _, k := range keys {
		fmt.Fprint(&b, ready[k])
	}
	return b.String()
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
