package netfilter

import (
	"errors"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ForgetDatagrams removes the connection-tracking entries of packets that were sent to UDP ports, of IPv4 or of IPv6, whatever the address. The kernel
// then looks at its rules again when the next packet comes.
func ForgetDatagrams(is4 bool, ports []uint16) error {
	if len(ports) == 0 {
		return nil
	}
	var filters []netlink.CustomConntrackFilter
	for _, port := range ports {
		filter := &netlink.ConntrackFilter{}
		if err := errors.Join(filter.AddProtocol(unix.IPPROTO_UDP), filter.AddPort(netlink.ConntrackOrigDstPort, port)); err != nil {
			return err
		}
		filters = append(filters, filter)
	}
	family := netlink.InetFamily(unix.AF_INET6)
	if is4 {
		family = unix.AF_INET
	}
	// A kernel without this interface has none of these entries that outlive their traffic by more than a minute.
	if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, slices.Clip(filters)...); err != nil && !errors.Is(err, syscall.EPROTONOSUPPORT) && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}
