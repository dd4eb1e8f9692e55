package network

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// peer is what the network needs to know of a Node.
type peer struct {
	name      string
	cidrs     []netip.Prefix // spec.podCIDRs
	addresses []netip.Addr   // InternalIPs
}

// peerOf reads a Node. What is no valid prefix or address is left out; the API server lets none in.
func peerOf(node *corev1.Node) peer {
	p := peer{name: node.Name}
	cidrs := node.Spec.PodCIDRs
	if len(cidrs) == 0 && node.Spec.PodCIDR != "" {
		cidrs = []string{node.Spec.PodCIDR}
	}
	for _, text := range cidrs {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			p.cidrs = append(p.cidrs, prefix.Masked())
		}
	}
	for _, address := range node.Status.Addresses {
		if address.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(address.Address); err == nil {
			p.addresses = append(p.addresses, ip.Unmap())
		}
	}
	return p
}

func (p peer) equal(other peer) bool {
	return p.name == other.name && slices.Equal(p.cidrs, other.cidrs) && slices.Equal(p.addresses, other.addresses)
}

// address is the peer's address of a family, invalid when it has none.
func (p peer) address(is4 bool) netip.Addr {
	for _, a := range p.addresses {
		if a.Is4() == is4 {
			return a
		}
	}
	return netip.Addr{}
}

// cidr is the peer's pod network of a family.
func (p peer) cidr(is4 bool) netip.Prefix {
	for _, c := range p.cidrs {
		if c.Addr().Is4() == is4 {
			return c
		}
	}
	return netip.Prefix{}
}
