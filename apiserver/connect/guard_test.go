package connect

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"vigil/internal/need"
)

// own is an address of this machine that is not of its loopback interface.
func own(t *testing.T) netip.Addr {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().IsGlobalUnicast() {
			return prefix.Addr().Unmap()
		}
	}
	need.Missing(t, "needs an address beside loopback's")
	return netip.Addr{}
}

func TestGuard(t *testing.T) {
	here := own(t)
	k := &kubelets{}
	port := func(ip netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(ip, port) }
	other := netip.MustParseAddr("192.0.2.77")
	for _, tc := range []struct {
		name                 string
		to                   netip.AddrPort
		own, others, loopish bool // let through for a node that is this machine, for others, and where loopback is allowed
	}{
		{"another machine", port(other, 6443), true, true, true},
		{"the API server", port(here, 6443), true, false, true},
		{"etcd", port(here, 2379), true, false, true},
		{"the kubelet of this machine", port(here, DefaultKubeletPort), true, true, true},
		{"mapped to IPv6", port(netip.AddrFrom16(here.As16()), 6443), true, false, true},
		{"loopback", netip.MustParseAddrPort("127.0.0.1:10250"), true, false, true},
		{"another of loopback", netip.MustParseAddrPort("127.1.2.3:6443"), true, false, true},
		{"loopback of IPv6", netip.MustParseAddrPort("[::1]:6443"), true, false, true},
		{"loopback mapped", netip.MustParseAddrPort("[::ffff:127.0.0.1]:6443"), true, false, true},
		{"unspecified", netip.MustParseAddrPort("0.0.0.0:6443"), false, false, false},
		{"unspecified of IPv6", netip.MustParseAddrPort("[::]:6443"), false, false, false},
		{"link-local", netip.MustParseAddrPort("169.254.169.254:80"), false, false, false},
		{"link-local of IPv6", netip.MustParseAddrPort("[fe80::1%lo]:6443"), false, false, false},
		{"broadcast", netip.MustParseAddrPort("255.255.255.255:6443"), false, false, false},
		{"multicast", netip.MustParseAddrPort("224.0.0.1:6443"), false, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, g := range []struct {
				is   string
				g    guard
				lets bool
			}{{"own", k.guard(true), tc.own}, {"another", k.guard(false), tc.others}, {"loopback allowed", (&kubelets{loopback: true}).guard(false), tc.loopish}} {
				if err := g.g.check(tc.to); (err == nil) != g.lets {
					t.Errorf("%s node at %s: %v", g.is, tc.to, err)
				}
			}
		})
	}
}

// TestGuard_Names: a name is looked at when it has been resolved.
func TestGuard_Names(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	k := &kubelets{}
	if conn, err := k.guard(false).dialer(time.Minute).DialContext(ctx, "tcp4", "localhost:"+port); err == nil || !errors.Is(err, errAddress) {
		t.Errorf("another node at localhost: %v, %v", conn, err)
	}
	conn, err := k.guard(true).dialer(time.Minute).DialContext(ctx, "tcp4", "localhost:"+port)
	if err != nil {
		t.Fatalf("this machine's node at localhost: %v", err)
	}
	conn.Close()
}
