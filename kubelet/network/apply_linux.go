package network

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routeProtocol marks our routes ("proto 86" in ip-route(8)). Numbers from 5 on are free for routing daemons; none that is known has this.
const routeProtocol = 86

// applyPlan makes routes, and the neighbours and forwarding entries of the VXLAN device, as planned: what is missing is added before what is
// too much goes. A VXLAN device that nobody needs goes, too.
func applyPlan(names names, self peer, here local, mtu int, p plan) error {
	var tunnel netlink.Link
	index := 0
	if p.vxlan {
		var err error
		if tunnel, err = ensureVXLAN(names, self, here, mtu); err != nil {
			return fmt.Errorf("VXLAN device %s: %w", names.vxlan, err)
		}
		index = tunnel.Attrs().Index
		if err := applyForwards(index, p.forwards); err != nil {
			return err
		}
		if err := applyNeighbors(index, p.neighbors); err != nil {
			return err
		}
	}
	if err := applyRoutes(index, p.routes); err != nil {
		return err
	}
	if !p.vxlan {
		return removeLink(names.vxlan)
	}
	return nil
}

func applyRoutes(tunnel int, want map[route]struct{}) error {
	have, err := ourRoutes()
	if err != nil {
		return err
	}
	kept := make(map[route]bool, len(have))
	destinations := make(map[netip.Prefix]bool, len(want))
	for r := range want {
		destinations[r.to] = true
	}
	for _, each := range have {
		kept[routeOf(each, tunnel)] = true
	}
	for r := range want {
		if kept[r] {
			continue
		}
		add := netlink.Route{Dst: ipNet(r.to), Gw: r.via.AsSlice(), LinkIndex: r.link, Protocol: routeProtocol}
		if r.link == 0 {
			add.LinkIndex, add.Flags = tunnel, int(netlink.FLAG_ONLINK)
		}
		if err := netlink.RouteReplace(&add); err != nil {
			return fmt.Errorf("add route to %s via %s: %w", r.to, r.via, err)
		}
	}
	for _, each := range have {
		r := routeOf(each, tunnel)
		if _, wanted := want[r]; wanted || destinations[r.to] && r.to.Addr().Is4() { // replaced above; for IPv6, replacing may have added one
			continue
		}
		if err := netlink.RouteDel(&each); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("remove route to %s via %s: %w", r.to, r.via, err)
		}
	}
	return nil
}

// ourRoutes lists the routes that carry our protocol, of the main table.
func ourRoutes() ([]netlink.Route, error) {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return routes, nil
}

func routeOf(r netlink.Route, tunnel int) route {
	to, _ := prefixOf(r.Dst)
	via, _ := netip.AddrFromSlice(r.Gw)
	link := r.LinkIndex
	if link == tunnel {
		link = 0
	}
	return route{to: to, via: via.Unmap(), link: link}
}

func applyNeighbors(tunnel int, want map[neighbor]struct{}) error {
	have := map[neighbor]bool{}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := netlink.NeighList(tunnel, family)
		if err != nil {
			return fmt.Errorf("list neighbours: %w", err)
		}
		for _, each := range list {
			ip, ok := netip.AddrFromSlice(each.IP)
			if ok && each.State&netlink.NUD_PERMANENT != 0 && len(each.HardwareAddr) == 6 {
				have[neighbor{ip.Unmap(), hardware(each.HardwareAddr)}] = true
			}
		}
	}
	addresses := map[netip.Addr]bool{}
	for n := range want {
		addresses[n.ip] = true
		if have[n] {
			continue
		}
		if err := netlink.NeighSet(neighborEntry(tunnel, n)); err != nil {
			return fmt.Errorf("set neighbour %s: %w", n.ip, err)
		}
	}
	for n := range have {
		if addresses[n.ip] {
			continue
		}
		if err := netlink.NeighDel(neighborEntry(tunnel, n)); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("remove neighbour %s: %w", n.ip, err)
		}
	}
	return nil
}

func neighborEntry(tunnel int, n neighbor) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: tunnel, IP: n.ip.AsSlice(), HardwareAddr: n.mac.address(), State: netlink.NUD_PERMANENT, Type: unix.RTN_UNICAST}
}

func applyForwards(tunnel int, want map[forward]struct{}) error {
	list, err := netlink.NeighList(tunnel, unix.AF_BRIDGE)
	if err != nil {
		return fmt.Errorf("list forwarding entries: %w", err)
	}
	have := map[forward]bool{}
	for _, each := range list {
		node, ok := netip.AddrFromSlice(each.IP)
		if ok && len(each.HardwareAddr) == 6 {
			have[forward{hardware(each.HardwareAddr), node.Unmap()}] = true
		}
	}
	wanted := map[hardware]bool{}
	for f := range want {
		wanted[f.mac] = true
		if have[f] {
			continue
		}
		if err := netlink.NeighSet(forwardEntry(tunnel, f)); err != nil {
			return fmt.Errorf("set forwarding entry for %s: %w", f.node, err)
		}
	}
	for f := range have {
		if wanted[f.mac] {
			continue
		}
		if err := netlink.NeighDel(forwardEntry(tunnel, f)); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("remove forwarding entry for %s: %w", f.node, err)
		}
	}
	return nil
}

func forwardEntry(tunnel int, f forward) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: tunnel, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF,
		IP: f.node.AsSlice(), HardwareAddr: f.mac.address(),
	}
}

// removeLink removes a link; that there is none is no error.
func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("remove link %s: %w", name, err)
	}
	return nil
}
