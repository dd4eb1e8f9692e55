package network

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"vigil/netfilter"
)

var protocols = map[corev1.Protocol]uint8{
	corev1.ProtocolTCP: unix.IPPROTO_TCP, corev1.ProtocolUDP: unix.IPPROTO_UDP, corev1.ProtocolSCTP: unix.IPPROTO_SCTP,
}

// writePorts replaces the table for host ports; without any there is no table. Chain ports has a rule for each; packets that come from elsewhere
// and packets of the node itself go through it.
func writePorts(name string, ports []hostPort) error {
	if len(ports) == 0 {
		return netfilter.RemoveTable(name)
	}
	table, err := netfilter.ReplaceTable(name)
	if err != nil {
		return err
	}
	chain := table.Chain("ports")
	table.Base("prerouting", netfilter.Prerouting).Rule(netfilter.ToThisMachine(), netfilter.Jump(chain))
	table.Base("output", netfilter.Output).Rule(netfilter.ToThisMachine(), netfilter.Jump(chain))
	for _, port := range ports {
		match := netfilter.Family(port.To.Addr().Is4())
		if port.HostIP.IsValid() {
			match = netfilter.AddressIn(netfilter.Destination, netip.PrefixFrom(port.HostIP, port.HostIP.BitLen()))
		}
		chain.Rule(match, netfilter.ToPort(protocols[port.Protocol], port.Port), netfilter.TranslateTo(port.To))
	}
	return table.Commit()
}

// forgetDatagrams removes the connection-tracking entries of UDP ports.
func forgetDatagrams(ports []hostPort) error {
	var numbers [2][]uint16 // of IPv4 and of IPv6
	for _, port := range ports {
		if port.To.Addr().Is4() {
			numbers[0] = append(numbers[0], port.Port)
		} else {
			numbers[1] = append(numbers[1], port.Port)
		}
	}
	if err := errors.Join(netfilter.ForgetDatagrams(true, numbers[0]), netfilter.ForgetDatagrams(false, numbers[1])); err != nil {
		return fmt.Errorf("forget UDP connections of host ports: %w", err)
	}
	return nil
}
