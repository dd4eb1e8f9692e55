package network

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testPeer(name, cidr, address string, more ...string) peer {
	p := peer{name: name, cidrs: []netip.Prefix{netip.MustParsePrefix(cidr)}, addresses: []netip.Addr{netip.MustParseAddr(address)}}
	for _, text := range more {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			p.cidrs = append(p.cidrs, prefix)
		} else {
			p.addresses = append(p.addresses, netip.MustParseAddr(text))
		}
	}
	return p
}

func (p plan) lines() []string {
	lines := []string{}
	for r := range p.routes {
		lines = append(lines, fmt.Sprintf("%s via %s link %d", r.to, r.via, r.link))
	}
	for n := range p.neighbors {
		lines = append(lines, fmt.Sprintf("%s at %s", n.ip, n.mac.address()))
	}
	for f := range p.forwards {
		lines = append(lines, fmt.Sprintf("%s to %s", f.mac.address(), f.node))
	}
	for _, m := range p.missing {
		lines = append(lines, "no way to "+m)
	}
	slices.Sort(lines)
	return lines
}

func TestMakePlan(t *testing.T) {
	here := local{networks: []network{
		{netip.MustParsePrefix("127.0.0.1/8"), 1}, {netip.MustParsePrefix("192.168.0.1/24"), 2}, {netip.MustParsePrefix("172.16.0.1/16"), 3},
		{netip.MustParsePrefix("fd00::1/64"), 2},
	}, mtu: 1500, link: 2}
	self := testPeer("self", "10.244.0.0/24", "192.168.0.1")
	dual := testPeer("self", "10.244.0.0/24", "192.168.0.1", "fd01::/64", "fd00::1")
	tests := []struct {
		name  string
		mode  Mode
		self  peer
		peers []peer
		want  []string
	}{
		{"nobody", ModeAuto, self, []peer{self}, []string{}},
		{"on the same network", ModeAuto, self, []peer{testPeer("b", "10.244.1.0/24", "192.168.0.2")}, []string{"10.244.1.0/24 via 192.168.0.2 link 2"}},
		{"on another link's network", ModeAuto, self, []peer{testPeer("b", "10.244.1.0/24", "172.16.9.9")}, []string{"10.244.1.0/24 via 172.16.9.9 link 3"}},
		{"far away", ModeAuto, self, []peer{testPeer("b", "10.244.1.0/24", "10.9.9.9")},
			[]string{"02:76:0a:f4:01:00 to 10.9.9.9", "10.244.1.0 at 02:76:0a:f4:01:00", "10.244.1.0/24 via 10.244.1.0 link 0"}},
		{"near, by VXLAN", ModeVXLAN, self, []peer{testPeer("b", "10.244.1.0/24", "192.168.0.2")},
			[]string{"02:76:0a:f4:01:00 to 192.168.0.2", "10.244.1.0 at 02:76:0a:f4:01:00", "10.244.1.0/24 via 10.244.1.0 link 0"}},
		{"far away, by routes only", ModeHostGW, self, []peer{testPeer("b", "10.244.1.0/24", "10.9.9.9")}, []string{"no way to b"}},
		{"nothing wanted", ModeNone, self, []peer{testPeer("b", "10.244.1.0/24", "192.168.0.2")}, []string{}},
		{"on this machine", ModeAuto, self, []peer{testPeer("b", "10.244.1.0/24", "192.168.0.1"), testPeer("c", "10.244.2.0/24", "172.16.0.1")}, []string{}},
		{"not ready", ModeAuto, self, []peer{{name: "b", cidrs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}}, {name: "c", addresses: []netip.Addr{netip.MustParseAddr("192.168.0.9")}}}, []string{}},
		{"two families", ModeAuto, dual, []peer{testPeer("b", "10.244.1.0/24", "192.168.0.2", "fd01:0:0:1::/64", "fd00::2")},
			[]string{"10.244.1.0/24 via 192.168.0.2 link 2", "fd01:0:0:1::/64 via fd00::2 link 2"}},
		{"two families, far away", ModeAuto, dual, []peer{testPeer("b", "10.244.1.0/24", "10.9.9.9", "fd01:0:0:1::/64", "fd09::2")},
			[]string{"02:76:0a:f4:01:00 to 10.9.9.9", "10.244.1.0 at 02:76:0a:f4:01:00", "10.244.1.0/24 via 10.244.1.0 link 0",
				"fd01:0:0:1:: at 02:76:0a:f4:01:00", "fd01:0:0:1::/64 via fd01:0:0:1:: link 0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, makePlan(tt.mode, tt.self, tt.peers, here).lines()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodsAndNodes(t *testing.T) {
	peers := []peer{
		testPeer("a", "10.244.1.0/24", "192.168.0.2"), testPeer("b", "10.244.0.0/24", "192.168.0.1"), testPeer("c", "10.244.3.0/24", "10.244.3.7"),
		testPeer("d", "fd01::/64", "fd00::1", "255.255.255.255", "10.244.3.128/25"),
	}
	want := []string{"10.244.0.0-10.244.1.255", "10.244.3.0-10.244.3.255", "192.168.0.1-192.168.0.2", "255.255.255.255-255.255.255.255"}
	var got []string
	for _, s := range podsAndNodes(peers, true) {
		got = append(got, s.First.String()+"-"+s.Last.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("IPv4 (-want +got):\n%s", diff)
	}
	want, got = []string{"fd00::1-fd00::1", "fd01::-fd01::ffff:ffff:ffff:ffff"}, nil
	for _, s := range podsAndNodes(peers, false) {
		got = append(got, s.First.String()+"-"+s.Last.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("IPv6 (-want +got):\n%s", diff)
	}
}

// TestRoutable: a Node whose pod network is not one of the cluster's, or is another's, gets no packets there.
func TestRoutable(t *testing.T) {
	self := testPeer("self", "10.244.0.0/24", "192.168.0.1")
	born := func(p peer, minute int) peer {
		p.made = time.Unix(int64(60*minute), 0)
		return p
	}
	self = born(self, 50)
	honest := born(testPeer("honest", "10.244.1.0/24", "192.168.0.2"), 10)
	cluster, own := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, []netip.Addr{netip.MustParseAddr("192.168.0.1"), netip.MustParseAddr("10.244.77.7")}
	for _, tt := range []struct {
		name     string
		cluster  []netip.Prefix
		attacker peer
		refused  []string
	}{
		{"another of the cluster", cluster, testPeer("x", "10.244.2.0/24", "192.168.0.9"), nil},
		{"a larger one of the cluster", cluster, testPeer("x", "10.244.128.0/20", "192.168.0.9"), nil},
		{"half of the internet", cluster, testPeer("x", "0.0.0.0/1", "192.168.0.9"), []string{"0.0.0.0/1 of x"}},
		{"half of the internet, cluster not known", nil, testPeer("x", "128.0.0.0/1", "192.168.0.9"), []string{"128.0.0.0/1 of x"}},
		{"outside", cluster, testPeer("x", "8.8.8.0/24", "192.168.0.9"), []string{"8.8.8.0/24 of x"}},
		{"all of the cluster's", cluster, testPeer("x", "10.244.0.0/16", "192.168.0.9"), []string{"10.244.0.0/16 of x"}},
		{"this node's", cluster, born(testPeer("x", "10.244.0.128/25", "192.168.0.9"), 1), []string{"10.244.0.128/25 of x"}},
		{"an older node's", cluster, born(testPeer("a", "10.244.1.64/26", "192.168.0.9"), 11), []string{"10.244.1.64/26 of a"}},
		{"around an address of this machine", cluster, testPeer("x", "10.244.77.0/24", "192.168.0.9"), []string{"10.244.77.0/24 of x"}},
		{"around an address of this machine, cluster not known", nil, testPeer("x", "192.168.0.0/24", "192.168.0.9"), []string{"192.168.0.0/24 of x"}},
		{"a private one, cluster not known", nil, testPeer("x", "172.16.3.0/24", "192.168.0.9"), nil},
		{"a carrier's, cluster not known", nil, testPeer("x", "100.64.3.0/24", "192.168.0.9"), nil},
		{"a public one, cluster not known", nil, testPeer("x", "8.8.8.0/24", "192.168.0.9"), []string{"8.8.8.0/24 of x"}},
		{"one public address, cluster not known", nil, testPeer("x", "1.1.1.1/32", "192.168.0.9"), []string{"1.1.1.1/32 of x"}},
		{"loopback, cluster not known", nil, testPeer("x", "127.0.0.0/24", "192.168.0.9"), []string{"127.0.0.0/24 of x"}},
		{"metadata of clouds, cluster not known", nil, testPeer("x", "169.254.169.0/24", "192.168.0.9"), []string{"169.254.169.0/24 of x"}},
		{"multicast, cluster not known", nil, testPeer("x", "224.0.0.0/24", "192.168.0.9"), []string{"224.0.0.0/24 of x"}},
		{"broadcast, cluster not known", nil, testPeer("x", "255.255.255.0/24", "192.168.0.9"), []string{"255.255.255.0/24 of x"}},
		{"a family that this node has not", nil, testPeer("x", "fd00::/64", "192.168.0.9"), []string{"fd00::/64 of x"}},
		{"one good and one bad", cluster, testPeer("x", "10.244.2.0/24", "192.168.0.9", "::/1"), []string{"::/1 of x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			peers := []peer{tt.attacker, self, honest}
			left, refused := routable(self, peers, tt.cluster, own)
			if diff := cmp.Diff(tt.refused, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			for _, p := range left {
				switch want := len(tt.attacker.cidrs) - len(tt.refused); {
				case p.name == tt.attacker.name && len(p.cidrs) != want, p.name != tt.attacker.name && len(p.cidrs) != 1:
					t.Errorf("%s is left %s", p.name, p.cidrs)
				}
			}
			if !peers[0].equal(tt.attacker) || peers[0].name != tt.attacker.name {
				t.Error("what is known of the peers was changed")
			}
		})
	}
}

// TestRoutable_Public: where nodes have public pod networks and nobody says which, others of them are routed, but nothing that is of no host.
func TestRoutable_Public(t *testing.T) {
	self := testPeer("self", "2001:db8:0:1::/64", "2001:db8::1")
	peers := []peer{self, testPeer("a", "2001:db8:0:2::/64", "2001:db8::2"), testPeer("b", "fd00:1::/64", "2001:db8::3"), testPeer("c", "fe80::/64", "2001:db8::4"),
		testPeer("d", "ff02::/64", "2001:db8::5"), testPeer("e", "::1/128", "2001:db8::6")}
	_, refused := routable(self, peers, nil, nil)
	if diff := cmp.Diff([]string{"::1/128 of e", "fe80::/64 of c", "ff02::/64 of d"}, refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}
