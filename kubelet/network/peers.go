package network

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// peer is what the network needs to know of a Node.
type peer struct {
	name      string
	made      time.Time      // creationTimestamp
	cidrs     []netip.Prefix // spec.podCIDRs
	addresses []netip.Addr   // the first InternalIP of each family: a node says itself what it has, and packets to them are not masqueraded
}

// peerOf reads a Node. What is no valid prefix or address is left out; the API server lets none in.
func peerOf(node *corev1.Node) peer {
	p := peer{name: node.Name, made: node.CreationTimestamp.Time, cidrs: PodCIDRs(node)}
	for _, address := range node.Status.Addresses {
		if address.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(address.Address); err == nil && !p.address(ip.Unmap().Is4()).IsValid() {
			p.addresses = append(p.addresses, ip.Unmap())
		}
	}
	return p
}

// PodCIDRs are the networks of a Node's pods, none as long as it has not been given any.
func PodCIDRs(node *corev1.Node) (prefixes []netip.Prefix) {
	cidrs := node.Spec.PodCIDRs
	if len(cidrs) == 0 && node.Spec.PodCIDR != "" {
		cidrs = []string{node.Spec.PodCIDR}
	}
	for _, text := range cidrs {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			prefixes = append(prefixes, prefix.Masked())
		}
	}
	return prefixes
}

func (p peer) equal(other peer) bool {
	return p.name == other.name && p.made.Equal(other.made) && slices.Equal(p.cidrs, other.cidrs) && slices.Equal(p.addresses, other.addresses)
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

// routable returns the peers without the pod networks that this node must not send packets to, and those networks, sorted, as "NETWORK of NODE". A Node
// is written by others, and a wrong pod network takes packets away from whom they are for: so only those networks are left
//   - that lie within one of the cluster's, or, where that is not known, are no larger than this node's own of the family, and private unless that is
//     public,
//   - that have no address of this node or its machine in them (own),
//   - and that overlap no other node's. Of two nodes this one, and then the older one, has the network.
func routable(self peer, peers []peer, cluster []netip.Prefix, own []netip.Addr) (left []peer, refused []string) {
	peers = slices.Clone(peers)
	slices.SortFunc(peers, func(a, b peer) int { return cmp.Or(a.made.Compare(b.made), cmp.Compare(a.name, b.name)) })
	taken := newRanges(self.cidrs)
	for _, p := range peers {
		if p.name == self.name {
			left = append(left, p)
			continue
		}
		p.cidrs = slices.DeleteFunc(slices.Clone(p.cidrs), func(network netip.Prefix) bool {
			if p.mayHave(network, self, cluster) && !slices.ContainsFunc(own, network.Contains) && taken.add(network) {
				return false
			}
			refused = append(refused, network.String()+" of "+p.name)
			return true
		})
		left = append(left, p)
	}
	slices.Sort(refused)
	return left, refused
}

// mayHave says whether a network is one that the cluster gives to nodes.
func (p peer) mayHave(network netip.Prefix, self peer, cluster []netip.Prefix) bool {
	if len(cluster) > 0 {
		return slices.ContainsFunc(cluster, func(c netip.Prefix) bool { return c.Bits() <= network.Bits() && c.Contains(network.Addr()) })
	}
	own := self.cidr(network.Addr().Is4())
	return own.IsValid() && network.Bits() >= own.Bits() && ofPods(network) && (private(network) || !private(own))
}

// ofPods says whether a network is one that packets are routed to at all: of single hosts beyond this machine and its links.
func ofPods(network netip.Prefix) bool {
	first := network.Addr()
	return !first.IsUnspecified() && !first.IsLoopback() && !first.IsLinkLocalUnicast() && !first.IsMulticast() && !reserved4.Contains(first) && !thisHost4.Contains(first)
}

// private says whether nobody on the internet has addresses of a network: RFC 1918, RFC 4193, RFC 6598, RFC 2544.
func private(network netip.Prefix) bool {
	first := network.Addr()
	return first.IsPrivate() || shared4.Contains(first) || benchmarks4.Contains(first)
}

var (
	thisHost4   = netip.MustParsePrefix("0.0.0.0/8")     // RFC 1122
	reserved4   = netip.MustParsePrefix("240.0.0.0/4")   // RFC 1112, with the broadcast address
	shared4     = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598, behind a carrier's NAT
	benchmarks4 = netip.MustParsePrefix("198.18.0.0/15") // RFC 2544
)

// ranges are networks that do not overlap, by their first addresses.
type ranges struct{ networks []netip.Prefix }

func newRanges(networks []netip.Prefix) *ranges {
	r := &ranges{}
	for _, n := range networks {
		r.add(n)
	}
	return r
}

// add takes a network in, unless it overlaps one that is in already.
func (r *ranges) add(network netip.Prefix) bool {
	i, _ := slices.BinarySearchFunc(r.networks, network, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	if i > 0 && r.networks[i-1].Overlaps(network) || i < len(r.networks) && r.networks[i].Overlaps(network) {
		return false
	}
	r.networks = slices.Insert(r.networks, i, network)
	return true
}
