package endpoints

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxAddresses is how many addresses an Endpoints object has at most (KEP-752). Ready ones have precedence.
const maxAddresses = 1000

// wanted returns the Endpoints that a Service should have, given the pods that it selects. current is nil when there are none
// yet; what others have written into it besides is kept.
func wanted(service *corev1.Service, pods []*corev1.Pod, current *corev1.Endpoints) *corev1.Endpoints {
	next := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}
	if current != nil {
		next = current.DeepCopy()
	}
	next.Labels = maps.Clone(service.Labels)
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	delete(next.Labels, corev1.IsHeadlessService)
	if service.Spec.ClusterIP == corev1.ClusterIPNone {
		next.Labels[corev1.IsHeadlessService] = ""
	}
	next.Labels[managedBy] = managedByThis
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	var cut bool
	next.Subsets, cut = truncate(repack(subsets(service, pods)))
	delete(next.Annotations, corev1.EndpointsOverCapacity)
	if cut {
		next.Annotations[corev1.EndpointsOverCapacity] = "truncated"
	}
	return next
}

// stamp notes when what the Endpoints show came about.
func stamp(e *corev1.Endpoints, trigger time.Time) {
	delete(e.Annotations, corev1.EndpointsLastChangeTriggerTime)
	if !trigger.IsZero() {
		e.Annotations[corev1.EndpointsLastChangeTriggerTime] = trigger.UTC().Format(time.RFC3339Nano)
	}
}

// subsets returns a subset for each pod and port.
func subsets(service *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	var all []corev1.EndpointSubset
	for _, pod := range pods {
		address, ok := addressOf(service, pod)
		if !ok {
			continue
		}
		one := corev1.EndpointSubset{}
		if service.Spec.PublishNotReadyAddresses || isReady(pod) {
			one.Addresses = []corev1.EndpointAddress{address}
		} else {
			one.NotReadyAddresses = []corev1.EndpointAddress{address}
		}
		if len(service.Spec.Ports) == 0 && service.Spec.ClusterIP == corev1.ClusterIPNone {
			all = append(all, one)
			continue
		}
		for i := range service.Spec.Ports {
			port := &service.Spec.Ports[i]
			number, ok := portOn(pod, port)
			if !ok {
				continue
			}
			one.Ports = []corev1.EndpointPort{{Name: port.Name, Port: number, Protocol: port.Protocol, AppProtocol: port.AppProtocol}}
			all = append(all, one)
		}
	}
	return all
}

// addressOf returns a pod's address for a Service. Pods have none that have ended, have no IP of the Service's family, or are being
// deleted (unless the Service publishes addresses that are not ready).
func addressOf(service *corev1.Service, pod *corev1.Pod) (corev1.EndpointAddress, bool) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return corev1.EndpointAddress{}, false
	}
	if pod.DeletionTimestamp != nil && !service.Spec.PublishNotReadyAddresses {
		return corev1.EndpointAddress{}, false
	}
	ip := ipOf(service, pod)
	if ip == "" {
		return corev1.EndpointAddress{}, false
	}
	address := corev1.EndpointAddress{
		IP:        ip,
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	if pod.Spec.NodeName != "" {
		node := pod.Spec.NodeName
		address.NodeName = &node
	}
	if pod.Spec.Hostname != "" && pod.Spec.Subdomain == service.Name {
		address.Hostname = pod.Spec.Hostname
	}
	return address, true
}

// ipOf returns the pod's IP of the Service's first family, "" when it has none.
func ipOf(service *corev1.Service, pod *corev1.Pod) string {
	if len(service.Spec.IPFamilies) == 0 {
		return pod.Status.PodIP
	}
	ips := pod.Status.PodIPs
	if len(ips) == 0 && pod.Status.PodIP != "" {
		ips = []corev1.PodIP{{IP: pod.Status.PodIP}}
	}
	for _, ip := range ips {
		addr, err := netip.ParseAddr(ip.IP)
		if err == nil && addr.Is6() == (service.Spec.IPFamilies[0] == corev1.IPv6Protocol) {
			return ip.IP
		}
	}
	return ""
}

func isReady(pod *corev1.Pod) bool {
	c := readyCondition(pod)
	return c != nil && c.Status == corev1.ConditionTrue
}

// portOn returns the number that a Service's port has on a pod. A named one is looked up among the ports of containers
// and of init containers that keep running (sidecars).
func portOn(pod *corev1.Pod, port *corev1.ServicePort) (int32, bool) {
	if port.TargetPort.Type == intstr.Int {
		return port.TargetPort.IntVal, true
	}
	find := func(c *corev1.Container) (int32, bool) {
		for _, p := range c.Ports {
			if p.Name == port.TargetPort.StrVal && p.Protocol == port.Protocol {
				return p.ContainerPort, true
			}
		}
		return 0, false
	}
	for i := range pod.Spec.Containers {
		if n, ok := find(&pod.Spec.Containers[i]); ok {
			return n, true
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			continue
		}
		if n, ok := find(c); ok {
			return n, true
		}
	}
	return 0, false
}

// sameEndpoint says that two states of a pod with the same labels look the same in Endpoints.
func sameEndpoint(a, b *corev1.Pod) bool {
	return isReady(a) == isReady(b) &&
		a.Status.PodIP == b.Status.PodIP && slices.Equal(a.Status.PodIPs, b.Status.PodIPs) &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		a.Status.Phase == b.Status.Phase &&
		a.Spec.NodeName == b.Spec.NodeName && a.Spec.Hostname == b.Spec.Hostname && a.Spec.Subdomain == b.Spec.Subdomain
}

// repack brings subsets into one form, so that equal content compares equal: ports with the same addresses share a subset, and
// everything is sorted.
func repack(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	type group struct {
		ports  []corev1.EndpointPort
		subset corev1.EndpointSubset
	}
	byPort := map[string]*group{} // "" for no port
	for _, s := range subsets {
		ports := s.Ports
		if len(ports) == 0 {
			ports = []corev1.EndpointPort{{}}
		}
		for _, port := range ports {
			key := ""
			if len(s.Ports) > 0 {
				key = portKey(port)
			}
			g := byPort[key]
			if g == nil {
				g = &group{}
				if key != "" {
					g.ports = []corev1.EndpointPort{port}
				}
				byPort[key] = g
			}
			g.subset.Addresses = append(g.subset.Addresses, s.Addresses...)
			g.subset.NotReadyAddresses = append(g.subset.NotReadyAddresses, s.NotReadyAddresses...)
		}
	}
	byAddresses := map[string]*group{}
	var order []string
	for _, key := range slices.Sorted(maps.Keys(byPort)) {
		g := byPort[key]
		g.subset.Addresses, g.subset.NotReadyAddresses = sorted(g.subset.Addresses), sorted(g.subset.NotReadyAddresses)
		set := fmt.Sprint(key == "", addressKeys(g.subset.Addresses), addressKeys(g.subset.NotReadyAddresses))
		if have := byAddresses[set]; have != nil {
			have.ports = append(have.ports, g.ports...)
			continue
		}
		byAddresses[set] = g
		order = append(order, set)
	}
	var packed []corev1.EndpointSubset
	for _, set := range order {
		g := byAddresses[set]
		g.subset.Ports = g.ports
		packed = append(packed, g.subset)
	}
	return packed
}

func portKey(p corev1.EndpointPort) string {
	app := ""
	if p.AppProtocol != nil {
		app = *p.AppProtocol
	}
	return fmt.Sprintf("%s/%05d/%s/%s", p.Name, p.Port, p.Protocol, app)
}

func addressKey(a corev1.EndpointAddress) string {
	if a.TargetRef == nil {
		return a.IP
	}
	return a.IP + " " + string(a.TargetRef.UID)
}

func addressKeys(addresses []corev1.EndpointAddress) []string {
	keys := make([]string, len(addresses))
	for i, a := range addresses {
		keys[i] = addressKey(a)
	}
	return keys
}

// sorted sorts addresses and drops what is there twice.
func sorted(addresses []corev1.EndpointAddress) []corev1.EndpointAddress {
	slices.SortFunc(addresses, func(a, b corev1.EndpointAddress) int { return cmp.Compare(addressKey(a), addressKey(b)) })
	return slices.CompactFunc(addresses, func(a, b corev1.EndpointAddress) bool { return addressKey(a) == addressKey(b) })
}

// truncate leaves at most maxAddresses addresses, and says whether it took any away. Each subset keeps its share.
func truncate(subsets []corev1.EndpointSubset) ([]corev1.EndpointSubset, bool) {
	ready, notReady := 0, 0
	for _, s := range subsets {
		ready += len(s.Addresses)
		notReady += len(s.NotReadyAddresses)
	}
	if ready+notReady <= maxAddresses {
		return subsets, false
	}
	keepReady := min(ready, maxAddresses)
	keepNotReady := maxAddresses - keepReady
	var kept []corev1.EndpointSubset
	for _, s := range subsets {
		s.Addresses = share(s.Addresses, keepReady, ready)
		s.NotReadyAddresses = share(s.NotReadyAddresses, keepNotReady, notReady)
		if len(s.Addresses)+len(s.NotReadyAddresses) > 0 {
			kept = append(kept, s)
		}
	}
	return kept, true
}

// share returns the part of a subset's addresses when keep of all are kept.
func share(addresses []corev1.EndpointAddress, keep, all int) []corev1.EndpointAddress {
	if all == 0 {
		return addresses
	}
	return addresses[:len(addresses)*keep/all]
}
