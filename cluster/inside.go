package cluster

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// insideListener accepts connections of this machine and of the cluster's pods and nodes at an address that the machine's neighbours reach, too. Those
// of others are reset before a byte is read.
type insideListener struct {
	net.Listener
	inside []netip.Prefix // of pods and nodes
}

func (l insideListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.admits(conn.RemoteAddr(), conn.LocalAddr()) {
			return conn, err
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // reset, and forget it at once
		}
		_ = conn.Close() // nothing was sent that could be lost
	}
}

// admits says whether a connection comes from inside. This machine connects from the address that it connects to.
func (l insideListener) admits(remote, local net.Addr) bool {
	from, ok := addressOf(remote)
	if !ok {
		return false
	}
	if own, ok := addressOf(local); ok && own == from {
		return true
	}
	return from.IsLoopback() || slices.ContainsFunc(l.inside, func(p netip.Prefix) bool { return p.Contains(from) })
}

func addressOf(addr net.Addr) (netip.Addr, bool) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	return tcp.AddrPort().Addr().Unmap().WithZone(""), true
}

// listenInside makes the API server's listeners beside --bind-address: at the advertised address, so that pods reach it under the address that the
// Service kubernetes names, and for further nodes with real containers. They are for the cluster itself alone.
func (c *UpConfig) listenInside(ctx context.Context) ([]net.Listener, error) {
	all, err := c.further.listen(c.APIServer.SecurePort, c.everywhere())
	if err != nil {
		return nil, err
	}
	var inside []netip.Prefix
	inside = append(inside, c.podNetworks().ClusterCIDRs...)
	if c.further != nil {
		for i := range c.Nodes {
			address := c.further.address(i)
			inside = append(inside, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	for i := range all {
		all[i] = insideListener{all[i], inside}
	}
	if address := c.ownAddress(); address.IsValid() {
		listener, err := c.APIServer.Listen(ctx, net.JoinHostPort(address.String(), strconv.Itoa(c.APIServer.SecurePort)))
		if err != nil {
			for _, listener := range all {
				listener.Close()
			}
			return nil, err
		}
		all = append(all, insideListener{listener, inside})
	}
	return all, nil
}

// ownAddress returns the advertised address if it is this machine's and neither --bind-address nor the listener for further nodes covers it; otherwise
// the zero value. On a machine without a default route the first node's address is the one that the API server advertises.
func (c *UpConfig) ownAddress() netip.Addr {
	address := advertised(c.APIServer)
	bind, _ := netip.ParseAddr(c.APIServer.BindAddress)
	if c.everywhere() || !address.IsValid() || address.IsLoopback() || address == bind || address == c.further.address(0) || !ofThisMachine(address) {
		return netip.Addr{}
	}
	return address
}

// everywhere says that --bind-address stands for all addresses of this machine.
func (c *UpConfig) everywhere() bool {
	bind, err := netip.ParseAddr(c.APIServer.BindAddress)
	return c.APIServer.BindAddress == "" || err == nil && bind.IsUnspecified()
}
