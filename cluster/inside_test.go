package cluster

import (
	"net"
	"net/netip"
	"testing"

	"vigil/kubelet/machine"
)

func TestInsideListener_Admits(t *testing.T) {
	l := insideListener{inside: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("100.64.0.2/32")}}
	local := &net.TCPAddr{IP: net.IPv4(192, 168, 1, 5), Port: 6443}
	for from, want := range map[string]bool{
		"192.168.1.5":        true, // this machine
		"127.0.0.1":          true,
		"10.244.3.9":         true, // a pod
		"::ffff:10.244.3.9":  true,
		"100.64.0.2":         true, // a node
		"100.64.0.3":         false,
		"192.168.1.6":        false, // a neighbour
		"10.245.0.1":         false,
		"fe80::1":            false,
		"::ffff:192.168.1.6": false,
	} {
		if got := l.admits(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 40000)), local); got != want {
			t.Errorf("from %s: %t, want %t", from, got, want)
		}
	}
}

func TestUp_OwnAddress(t *testing.T) {
	host := machine.Address()
	if !host.IsValid() {
		host = netip.MustParseAddr("192.0.2.77") // of no machine: nothing is opened
	}
	mine := ofThisMachine(host)
	for _, c := range []struct {
		bind, advertise string
		want            bool
	}{
		{"127.0.0.1", "", mine},
		{"127.0.0.1", host.String(), mine},
		{"0.0.0.0", "", false}, // it is listened on anyway
		{"", "", false},
		{"::", host.String(), false},
		{host.String(), "", false},
		{"127.0.0.1", "127.0.0.1", false},
		{"127.0.0.1", "203.0.113.9", false}, // a balancer's
	} {
		config := UpConfig{APIServer: APIServerConfig{BindAddress: c.bind}}
		if c.advertise != "" {
			config.APIServer.AdvertiseAddress = netip.MustParseAddr(c.advertise)
		}
		got := config.ownAddress()
		if got.IsValid() != c.want || c.want && got != host {
			t.Errorf("bind %q, advertise %q: %s, want one: %t", c.bind, c.advertise, got, c.want)
		}
	}
}
