package network

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/netfilter"
)

// hostPort leads packets for a port of the node to a pod.
type hostPort struct {
	Protocol corev1.Protocol `json:"protocol"`
	HostIP   netip.Addr      `json:"hostIP"` // invalid: every address of the node
	Port     uint16          `json:"port"`
	To       netip.AddrPort  `json:"to"`
}

// hostPorts are those of all pods of the node. They are kept in a file, so that a restart of the kubelet closes none.
type hostPorts struct {
	path string

	mu      sync.Mutex
	pods    map[types.UID][]hostPort
	pending map[types.UID]struct{} // pods whose change may not be in the kernel yet
	written []hostPort             // as the kernel has them; nil: nobody knows
}

func newHostPorts(path string) (*hostPorts, error) {
	p := &hostPorts{path: path, pods: map[types.UID][]hostPort{}, pending: map[types.UID]struct{}{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read host ports: %w", err)
	}
	if err := json.Unmarshal(text, &p.pods); err != nil { // pods will tell theirs again
		p.pods = map[types.UID][]hostPort{}
	}
	return p, nil
}

// Set opens the host ports of a pod that has these addresses, and closes those it had before. A pod with the host's network needs none:
// its containers listen there themselves.
func (n *Network) Set(_ context.Context, pod *corev1.Pod, ips []netip.Addr) error {
	return n.changePorts(pod.UID, portsOf(pod, ips))
}

// Remove closes the host ports of a pod.
func (n *Network) Remove(_ context.Context, pod types.UID) error { return n.changePorts(pod, nil) }

// Pods lists the pods that have host ports, those that were there before a restart included.
func (n *Network) Pods() []types.UID {
	n.ports.mu.Lock()
	defer n.ports.mu.Unlock()
	return slices.Collect(maps.Keys(n.ports.pods))
}

func (n *Network) changePorts(pod types.UID, ports []hostPort) error {
	if !n.ports.put(pod, ports) {
		return nil
	}
	return n.inside(func() error { return n.ports.sync(n.names) })
}

// put says whether there is something to write: a change, or one of before whose writing failed. Whoever tries again must not be told that all
// is well.
func (p *hostPorts) put(pod types.UID, ports []hostPort) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Equal(p.pods[pod], ports) {
		_, failed := p.pending[pod]
		return failed
	}
	p.pending[pod] = struct{}{}
	if len(ports) == 0 {
		delete(p.pods, pod)
	} else {
		p.pods[pod] = ports
	}
	return true
}

// portsOf reads the host ports of a pod, those of its init containers that stay included.
func portsOf(pod *corev1.Pod, ips []netip.Addr) []hostPort {
	if pod.Spec.HostNetwork {
		return nil
	}
	containers := slices.Clone(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, c)
		}
	}
	var ports []hostPort
	for _, c := range containers {
		for _, port := range c.Ports {
			if port.HostPort == 0 {
				continue
			}
			var hostIP netip.Addr
			if ip, err := netip.ParseAddr(port.HostIP); err == nil && !ip.IsUnspecified() {
				hostIP = ip.Unmap()
			}
			for _, ip := range ips {
				ip = ip.Unmap()
				if !hostIP.IsValid() || hostIP.Is4() == ip.Is4() {
					ports = append(ports, hostPort{
						Protocol: cmp.Or(port.Protocol, corev1.ProtocolTCP), HostIP: hostIP,
						Port: uint16(port.HostPort), To: netip.AddrPortFrom(ip, uint16(port.ContainerPort)),
					})
				}
			}
		}
	}
	return ports
}

// sync writes the rules and the file when they are not as they should be.
func (p *hostPorts) sync(names names) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.sortedLocked()
	if p.written != nil && slices.Equal(p.written, all) {
		there, err := len(all) == 0, error(nil)
		if !there {
			there, err = netfilter.IsComplete(names.ports)
		}
		if err != nil {
			return err
		}
		if there {
			clear(p.pending)
			return nil
		}
	}
	text, err := json.Marshal(p.pods)
	if err != nil {
		return fmt.Errorf("encode host ports: %w", err)
	}
	if err := writeFile(p.path, text); err != nil {
		return fmt.Errorf("keep host ports: %w", err)
	}
	if err := writePorts(names.ports, all); err != nil {
		return err
	}
	if err := forgetDatagrams(changedPorts(p.written, all)); err != nil {
		return err
	}
	p.written = all
	clear(p.pending)
	return nil
}

// sortedLocked is every host port: those of one address before those of all, which would have their packets otherwise. It is not nil.
func (p *hostPorts) sortedLocked() []hostPort {
	all := []hostPort{}
	for _, ports := range p.pods {
		all = append(all, ports...)
	}
	slices.SortFunc(all, func(a, b hostPort) int {
		if a.HostIP.IsValid() != b.HostIP.IsValid() {
			if a.HostIP.IsValid() {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), a.HostIP.Compare(b.HostIP), a.To.Compare(b.To))
	})
	return all
}

// changedPorts are the UDP ports whose rules differ. Their packets belong to "connections" that go on as long as packets come, past any new
// rule, so these have to be forgotten.
func changedPorts(before, now []hostPort) []hostPort {
	var changed []hostPort
	for _, lists := range [][2][]hostPort{{before, now}, {now, before}} {
		for _, port := range lists[0] {
			if port.Protocol == corev1.ProtocolUDP && before != nil && !slices.Contains(lists[1], port) {
				changed = append(changed, port)
			}
		}
	}
	return changed
}
