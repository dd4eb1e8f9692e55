package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

var protocols = map[corev1.Protocol]uint8{
	corev1.ProtocolTCP: unix.IPPROTO_TCP, corev1.ProtocolUDP: unix.IPPROTO_UDP, corev1.ProtocolSCTP: unix.IPPROTO_SCTP,
}

// writePorts replaces the table for host ports; without any there is no table. Chain ports has a rule for each; packets that come from elsewhere
// and packets of the node itself go through it.
func writePorts(name string, ports []hostPort) error {
	if len(ports) == 0 {
		return removeTable(name)
	}
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	table := replaceTable(c, name)
	chain := c.AddChain(&nftables.Chain{Name: "ports", Table: table})
	for _, hook := range []struct {
		name     string
		hook     *nftables.ChainHook
		priority *nftables.ChainPriority
	}{
		{"prerouting", nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest},
		{"output", nftables.ChainHookOutput, nftables.ChainPriorityNATDest},
	} {
		base := c.AddChain(&nftables.Chain{Name: hook.name, Table: table, Type: nftables.ChainTypeNAT, Hooknum: hook.hook, Priority: hook.priority})
		jump := append(toThisMachine(), &expr.Verdict{Kind: expr.VerdictJump, Chain: chain.Name})
		c.AddRule(&nftables.Rule{Table: table, Chain: base, Exprs: jump})
	}
	for _, port := range ports {
		match := family(port.To.Addr().Is4())
		if port.HostIP.IsValid() {
			match = addressIn(destination, netip.PrefixFrom(port.HostIP, port.HostIP.BitLen()))
		}
		match = append(match, toPort(protocols[port.Protocol], port.Port)...)
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(match, translateTo(port.To)...)})
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("write nftables table %s: %w", name, err)
	}
	return nil
}

// forgetDatagrams removes the connection-tracking entries of UDP ports.
func forgetDatagrams(ports []hostPort) error {
	for _, is4 := range []bool{true, false} {
		var filters []netlink.CustomConntrackFilter
		for _, port := range ports {
			if port.To.Addr().Is4() != is4 {
				continue
			}
			filter := &netlink.ConntrackFilter{}
			if err := errors.Join(filter.AddProtocol(unix.IPPROTO_UDP), filter.AddPort(netlink.ConntrackOrigDstPort, port.Port)); err != nil {
				return err
			}
			filters = append(filters, filter)
		}
		if len(filters) == 0 {
			continue
		}
		family := netlink.InetFamily(unix.AF_INET6)
		if is4 {
			family = unix.AF_INET
		}
		// A kernel without this interface has none of these entries that outlive their traffic by more than a minute.
		if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, slices.Clip(filters)...); err != nil && !errors.Is(err, syscall.EPROTONOSUPPORT) && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("forget UDP connections of host ports: %w", err)
		}
	}
	return nil
}
