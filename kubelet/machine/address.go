package machine

import (
	"net"
	"net/netip"
)

// Address is the first IPv4 address of this machine that others may reach, or the zero value.
func Address() netip.Addr {
	// No packet is sent: the kernel says from which address one would be.
	if conn, err := net.Dial("udp4", "192.0.2.1:9"); err == nil {
		defer conn.Close()
		if from, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil && from.Addr().IsGlobalUnicast() {
			return from.Addr()
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}
	}
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().Is4() && prefix.Addr().IsGlobalUnicast() {
			return prefix.Addr()
		}
	}
	return netip.Addr{}
}
