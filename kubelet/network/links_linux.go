package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// look reads the addresses of this machine's links, without those of our own.
func look(self peer) (local, error) {
	here := local{mtu: 1500}
	links, err := netlink.LinkList()
	if err != nil {
		return here, fmt.Errorf("list links: %w", err)
	}
	byIndex := make(map[int]*netlink.LinkAttrs, len(links))
	for _, link := range links {
		byIndex[link.Attrs().Index] = link.Attrs()
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return here, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		link := byIndex[a.LinkIndex]
		prefix, ok := prefixOf(a.IPNet)
		if link == nil || !ok || isForPods(link.Name) || prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		here.networks = append(here.networks, network{prefix: prefix, link: a.LinkIndex})
		if len(self.addresses) > 0 && prefix.Addr() == self.addresses[0] {
			here.link = a.LinkIndex
			if link.Flags&net.FlagLoopback == 0 {
				here.mtu = link.MTU
			}
		}
	}
	return here, nil
}

// isForPods says that a link has addresses of pods' networks.
func isForPods(link string) bool {
	return strings.HasPrefix(link, bridgePrefix) || strings.HasPrefix(link, vxlanPrefix)
}

// isOurs says that a link may have been made here; its alias says for whom.
func isOurs(link string) bool {
	return isForPods(link) || strings.HasPrefix(link, segmentPrefix) || strings.HasPrefix(link, portPrefix)
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	ip, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	ip = ip.Unmap()
	return netip.PrefixFrom(ip, ones), ok && bits == ip.BitLen()
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// ensureBridge makes the bridge, with the first address of each pod network. It is made before the first pod, so that it has our mark,
// and so that nodes in one network namespace reach each other's pods.
func ensureBridge(names names, self peer, mtu int) error {
	mac := bridgeHardware(self)
	link, err := netlink.LinkByName(names.bridge)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		attributes := netlink.NewLinkAttrs()
		attributes.Name, attributes.HardwareAddr, attributes.MTU = names.bridge, mac.address(), mtu
		if err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
			return err
		}
		link, err = netlink.LinkByName(names.bridge)
	}
	if err != nil {
		return err
	}
	if link.Type() != "bridge" {
		return fmt.Errorf("is a %s", link.Type())
	}
	have := link.Attrs()
	if have.HardwareAddr.String() != mac.address().String() {
		if err := netlink.LinkSetHardwareAddr(link, mac.address()); err != nil {
			return err
		}
	}
	if have.MTU != mtu { // fails while a pod has a larger one: it is set when that has gone
		_ = netlink.LinkSetMTU(link, mtu)
	}
	if err := ensureUp(link, names.alias); err != nil {
		return err
	}
	want := make([]netip.Prefix, 0, len(self.cidrs))
	for _, cidr := range self.cidrs {
		want = append(want, netip.PrefixFrom(gateway(cidr), cidr.Bits()))
	}
	return ensureAddresses(link, want)
}

// ensureUp sets a link up and gives it the alias by which `vigil down` knows it.
func ensureUp(link netlink.Link, alias string) error {
	if link.Attrs().Alias != alias {
		if err := netlink.LinkSetAlias(link, alias); err != nil {
			return fmt.Errorf("set alias: %w", err)
		}
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("set up: %w", err)
		}
	}
	return nil
}

// ensureAddresses gives a link these addresses and takes all others away, but link-local ones.
func ensureAddresses(link netlink.Link, want []netip.Prefix) error {
	have, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	missing := make(map[netip.Prefix]bool, len(want))
	for _, p := range want {
		missing[p] = true
	}
	for _, a := range have {
		p, ok := prefixOf(a.IPNet)
		if !ok || p.Addr().IsLinkLocalUnicast() || missing[p] {
			delete(missing, p)
			continue
		}
		if err := netlink.AddrDel(link, &netlink.Addr{IPNet: a.IPNet}); err != nil {
			return fmt.Errorf("remove address %s: %w", p, err)
		}
	}
	for p := range missing {
		address := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD // or it could not be used for a second
		}
		if err := netlink.AddrAdd(link, address); err != nil && !errors.Is(err, syscall.EEXIST) {
			return fmt.Errorf("add address %s: %w", p, err)
		}
	}
	return nil
}

// ensureVXLAN makes the VXLAN device, or makes it anew when it is not as it should be: parameters cannot be changed.
func ensureVXLAN(names names, self peer, here local, mtu int) (netlink.Link, error) {
	source := self.address(true)
	if !source.IsValid() {
		source = self.address(false)
	}
	mac := tunnelHardware(self)
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.HardwareAddr, attributes.MTU = names.vxlan, mac.address(), mtu
	want := &netlink.Vxlan{
		LinkAttrs: attributes, VxlanId: vxlanID, Port: vxlanPort, SrcAddr: source.AsSlice(), VtepDevIndex: here.link,
	}
	link, err := netlink.LinkByName(names.vxlan)
	if err == nil && !sameVXLAN(link, want) {
		if err := netlink.LinkDel(link); err != nil {
			return nil, fmt.Errorf("replace: %w", err)
		}
		err = netlink.LinkNotFoundError{}
	}
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		if err = netlink.LinkAdd(want); err != nil {
			return nil, err
		}
		link, err = netlink.LinkByName(names.vxlan)
	}
	if err != nil {
		return nil, err
	}
	if link.Attrs().MTU != mtu {
		if err := netlink.LinkSetMTU(link, mtu); err != nil {
			return nil, fmt.Errorf("set MTU: %w", err)
		}
	}
	if err := ensureUp(link, names.alias); err != nil {
		return nil, err
	}
	// Packets of the node itself leave with the network address of its pods, so that answers come back the same way.
	own := make([]netip.Prefix, 0, len(self.cidrs))
	for _, cidr := range self.cidrs {
		own = append(own, netip.PrefixFrom(cidr.Addr(), cidr.Addr().BitLen()))
	}
	return link, ensureAddresses(link, own)
}

func sameVXLAN(link netlink.Link, want *netlink.Vxlan) bool {
	have, ok := link.(*netlink.Vxlan)
	return ok && have.VxlanId == want.VxlanId && have.Port == want.Port && have.SrcAddr.Equal(want.SrcAddr) &&
		have.VtepDevIndex == want.VtepDevIndex && !have.Learning && have.HardwareAddr.String() == want.HardwareAddr.String()
}

// ensureSysctls sets what routing for pods needs.
func ensureSysctls(bridge string, self peer) error {
	set := map[string]string{}
	for _, cidr := range self.cidrs {
		if cidr.Addr().Is4() {
			set["ipv4/ip_forward"] = "1"
			// A packet from localhost to a host port leaves for the pod from 127.0.0.1, until masquerading.
			set["ipv4/conf/"+bridge+"/route_localnet"] = "1"
			// Host ports lead from a pod back to its own bridge; telling the pod of a shorter way would be wrong.
			set["ipv4/conf/"+bridge+"/send_redirects"] = "0"
		} else {
			set["ipv6/conf/all/forwarding"] = "1"
		}
	}
	for name, value := range set {
		if err := sysctl(name, value); err != nil {
			return err
		}
	}
	return nil
}

// sysctl sets a parameter below net of the calling thread's network namespace.
func sysctl(name, value string) error {
	path := filepath.Join("/proc/sys/net", name)
	have, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(have)) == value {
		return nil
	}
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("set %s to %s: %w", strings.ReplaceAll("net/"+name, "/", "."), value, err)
	}
	return nil
}
