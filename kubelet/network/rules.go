package network

import (
	"net/netip"
	"slices"

	"vigil/netfilter"
)

// rules are what dropping and masquerading depend on.
type rules struct {
	bridge    string
	own       []netip.Prefix       // pod networks of this node
	elsewhere bool                 // packets of pods to elsewhere are masqueraded
	near      [2][]netfilter.Range // where packets of pods keep their address, of IPv4 and of IPv6
}

func (r rules) equal(other rules) bool {
	return r.bridge == other.bridge && r.elsewhere == other.elsewhere && slices.Equal(r.own, other.own) && slices.Equal(r.near[0], other.near[0]) && slices.Equal(r.near[1], other.near[1])
}

// syncRules writes the rules anew, in one transaction, when they have to change or somebody has removed them. Connections that
// there are keep their translations. With ModeNone there are still those that host ports need, and what keeps pods off the addresses of localhost.
func (n *Network) syncRules(self peer, peers []peer) error {
	want := rules{bridge: n.names.bridge, own: self.cidrs, elsewhere: n.config.Mode != ModeNone}
	if want.elsewhere {
		everybody := append(slices.Clone(peers), self)
		want.near = [2][]netfilter.Range{podsAndNodes(everybody, true), podsAndNodes(everybody, false)}
	}
	if want.equal(n.rules) {
		there, err := netfilter.IsComplete(n.names.rules)
		if err != nil {
			return err
		}
		if there {
			return nil
		}
	}
	if err := writeRules(n.names.rules, want); err != nil {
		return err
	}
	n.rules = want
	return nil
}
