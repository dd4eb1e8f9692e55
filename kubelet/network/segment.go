package network

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
)

// MaxSegmentNodes is how many further nodes can share a machine.
const MaxSegmentNodes = 250

// namespaceDir is where `ip netns` keeps network namespaces, too.
const namespaceDir = "/run/netns"

// Segment joins several nodes on one machine, each but the first in a network namespace of its own, as if they were machines on one
// network:
//
//	first node, the machine itself -- bridge vgs… 10.243.N.1/24
//	                                     +-- veth -- eth0 10.243.N.2, network namespace of the second node
//	                                     +-- veth -- eth0 10.243.N.3 ...
//
// N follows from the owner. Packets of the others to elsewhere leave with the machine's address. What it makes stays when the process ends, and is
// taken over by the next.
type Segment struct {
	owner, mark string
	prefix      netip.Prefix
}

// NewSegment is the segment of a data directory. It makes nothing yet.
func NewSegment(owner string) *Segment {
	mark := hashed(owner, 6)
	number, _ := strconv.ParseUint(mark[:2], 16, 8)
	return &Segment{owner: owner, mark: mark, prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 243, byte(number), 0}), 24)}
}

// Address is the InternalIP of the i-th node, counted from 0, the machine itself.
func (s *Segment) Address(i int) netip.Addr {
	address := s.prefix.Addr().As4()
	address[3] = byte(i + 1)
	return netip.AddrFrom4(address)
}

// Namespace is the path of a node's network namespace.
func (s *Segment) Namespace(node string) string {
	return filepath.Join(namespaceDir, s.namespacePrefix()+hashed(node, 4)+"-"+node)
}

func (s *Segment) namespacePrefix() string { return tablePrefix + s.mark + "-" }

func (s *Segment) bridge() string           { return segmentPrefix + s.mark }
func (s *Segment) port(node string) string  { return portPrefix + s.mark + hashed(node, 4) }
func (s *Segment) table() string            { return tablePrefix + s.mark + "-nodes" }
func (s *Segment) alias(what string) string { return aliasOf(s.owner) + " " + what }

func (s *Segment) check(i int) error {
	if i < 1 || i > MaxSegmentNodes {
		return fmt.Errorf("at most %d further nodes can share a machine", MaxSegmentNodes)
	}
	return nil
}
