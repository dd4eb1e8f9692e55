package network

import (
	"crypto/sha256"
	"net"
	"net/netip"
	"slices"

	"vigil/netfilter"
)

// local is what the node's own links say.
type local struct {
	networks []network // addresses of links that are not ours
	mtu      int       // of the link that has the node's address
	link     int       // its index
}

type network struct {
	prefix netip.Prefix // the link's own address with its length
	link   int          // index
}

// hardware is a MAC address that can be compared.
type hardware [6]byte

func (h hardware) address() net.HardwareAddr { return h[:] }

// route leads to a pod network of another node. Link 0 is the VXLAN device.
type route struct {
	to   netip.Prefix
	via  netip.Addr
	link int
}

// neighbor says which hardware address an address behind the VXLAN device has, forward to which node packets for that go.
type (
	neighbor struct {
		ip  netip.Addr
		mac hardware
	}
	forward struct {
		mac  hardware
		node netip.Addr
	}
)

// plan is what a node needs to reach the pods of all others.
type plan struct {
	vxlan     bool // a VXLAN device is needed
	routes    map[route]struct{}
	neighbors map[neighbor]struct{}
	forwards  map[forward]struct{}
	missing   []string // nodes whose pods cannot be reached, with the mode asked for
}

// makePlan says how self reaches its peers. A peer that has no pod network or no address yet is left out, and so is one whose
// address is this machine's own: its bridge is here.
func makePlan(mode Mode, self peer, peers []peer, here local) plan {
	p := plan{
		routes: map[route]struct{}{}, neighbors: map[neighbor]struct{}{}, forwards: map[forward]struct{}{},
		vxlan: mode == ModeVXLAN,
	}
	if mode == ModeNone {
		return p
	}
	links := here.index()
	for _, other := range peers {
		if other.name == self.name || len(other.cidrs) == 0 || len(other.addresses) == 0 || links.has(other.addresses) {
			continue
		}
		reached := false
		for _, cidr := range other.cidrs {
			gateway := other.address(cidr.Addr().Is4())
			if mode != ModeVXLAN && gateway.IsValid() {
				if link := links.link(gateway); link != 0 {
					p.routes[route{to: cidr, via: gateway, link: link}] = struct{}{}
					reached = true
					continue
				}
			}
			if mode == ModeHostGW {
				continue
			}
			end := other.address(true) // the tunnel's other end, by IPv4 where both have it
			if !end.IsValid() || !self.address(true).IsValid() {
				end = other.address(false)
			}
			if !end.IsValid() {
				continue
			}
			mac := tunnelHardware(other)
			via := cidr.Addr() // the network address itself is the device's, as no pod has it
			p.vxlan, reached = true, true
			p.routes[route{to: cidr, via: via}] = struct{}{}
			p.neighbors[neighbor{ip: via, mac: mac}] = struct{}{}
			p.forwards[forward{mac: mac, node: end}] = struct{}{}
		}
		if !reached {
			p.missing = append(p.missing, other.name)
		}
	}
	slices.Sort(p.missing)
	return p
}

// tunnelHardware is the hardware address of a node's VXLAN device. It follows from the node's first pod network, which no other node has, so
// that nobody has to be told: "02:76" and the IPv4 address of the network, or four bytes of a hash of an IPv6 one.
func tunnelHardware(p peer) hardware {
	h := hardware{0x02, 0x76}
	if cidr := p.cidr(true); cidr.IsValid() {
		ip := cidr.Addr().As4()
		copy(h[2:], ip[:])
	} else if len(p.cidrs) > 0 {
		sum := sha256.Sum256([]byte(p.cidrs[0].String()))
		copy(h[2:], sum[:])
	}
	return h
}

// bridgeHardware is the hardware address of a node's bridge. A fixed one stays when ports come and go, and with it what pods remember of it.
func bridgeHardware(p peer) hardware {
	h := tunnelHardware(p)
	h[1] = 0x77
	return h
}

// addresses are the machine's own.
func (l local) addresses() []netip.Addr {
	all := make([]netip.Addr, len(l.networks))
	for i, n := range l.networks {
		all[i] = n.prefix.Addr()
	}
	return all
}

// linkIndex answers for many addresses on which link they are.
type linkIndex struct {
	own      map[netip.Addr]struct{}
	networks []network
}

func (l local) index() linkIndex {
	x := linkIndex{own: make(map[netip.Addr]struct{}, len(l.networks)), networks: l.networks}
	for _, n := range l.networks {
		x.own[n.prefix.Addr()] = struct{}{}
	}
	return x
}

// has says that one of the addresses is this machine's own.
func (x linkIndex) has(addresses []netip.Addr) bool {
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool { _, own := x.own[a]; return own })
}

// link is the index of the link on whose network an address is, the most specific one; 0 is none.
func (x linkIndex) link(a netip.Addr) int {
	best, link := -1, 0
	for _, n := range x.networks {
		if n.prefix.Bits() > best && n.prefix.Contains(a) && !n.prefix.IsSingleIP() {
			best, link = n.prefix.Bits(), n.link
		}
	}
	return link
}

// podsAndNodes are the addresses to which packets of pods go with the pod's own address: all pod networks and nodes, of one family. The ranges
// are sorted, do not overlap and do not touch.
func podsAndNodes(peers []peer, is4 bool) []netfilter.Range {
	var ranges []netfilter.Range
	for _, p := range peers {
		for _, c := range p.cidrs {
			if c.Addr().Is4() == is4 {
				ranges = append(ranges, netfilter.Range{First: c.Addr(), Last: lastOf(c)})
			}
		}
		for _, a := range p.addresses {
			if a.Is4() == is4 {
				ranges = append(ranges, netfilter.Range{First: a, Last: a})
			}
		}
	}
	slices.SortFunc(ranges, func(a, b netfilter.Range) int { return a.First.Compare(b.First) })
	merged := ranges[:0]
	for _, s := range ranges {
		if n := len(merged); n > 0 {
			if end := &merged[n-1].Last; !end.Less(s.First) || end.Next() == s.First {
				if end.Less(s.Last) {
					*end = s.Last
				}
				continue
			}
		}
		merged = append(merged, s)
	}
	return merged
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}
