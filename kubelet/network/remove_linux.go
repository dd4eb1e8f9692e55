package network

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"

	"vigil/netfilter"
)

// Remove takes away all that nodes of a data directory have made in this network namespace: links with our names and its alias, with
// them their addresses, its tables, and the network namespaces of its nodes. Routes are those of links that go, and those with our protocol, unless another data directory's links are
// there. What pods' sandboxes have is the runtime's to remove before.
func Remove(owner string) error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	var errs []error
	others := false
	for _, link := range links {
		name, alias := link.Attrs().Name, link.Attrs().Alias
		switch {
		case !isOurs(name):
		case alias == aliasOf(owner), strings.HasPrefix(alias, aliasOf(owner)+" "):
			errs = append(errs, removeLink(name))
		default:
			others = true
		}
	}
	if !others {
		routes, err := ourRoutes()
		errs = append(errs, err)
		for _, r := range routes {
			if err := netlink.RouteDel(&r); err != nil {
				errs = append(errs, fmt.Errorf("remove route to %s: %w", r.Dst, err))
			}
		}
	}
	errs = append(errs, removeTables(tablePrefix+hashed(owner, 6)+"-"), NewSegment(owner).removeNamespaces())
	return errors.Join(errs...)
}

// Left lists what Remove would take away, for people and tests.
func Left(owner string) ([]string, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var left []string
	for _, link := range links {
		if isOurs(link.Attrs().Name) && strings.HasPrefix(link.Attrs().Alias, aliasOf(owner)+" ") {
			left = append(left, "link "+link.Attrs().Name)
		}
	}
	tables, err := netfilter.Tables(tablePrefix + hashed(owner, 6) + "-")
	for _, table := range tables {
		left = append(left, "nftables table "+table)
	}
	namespaces, namespacesErr := NewSegment(owner).namespaces()
	for _, path := range namespaces {
		left = append(left, "network namespace "+path)
	}
	return left, errors.Join(err, namespacesErr)
}

func removeTables(prefix string) error {
	names, err := netfilter.Tables(prefix)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, netfilter.RemoveTable(name))
	}
	return errors.Join(errs...)
}
