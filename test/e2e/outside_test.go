package e2e

import (
	"testing"

	"github.com/vishvananda/netlink"

	"vigil/internal/nstest"
)

// outside gives this machine a neighbour, through which its default route leads.
func outside(t testing.TB) *nstest.Namespace {
	t.Helper()
	neighbour := nstest.NewNamespace(t)
	link, err := netlink.LinkByName(nstest.BridgeName)
	if err != nil {
		t.Fatal(err)
	}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: neighbour.Address.AsSlice()}
	if err := netlink.RouteReplace(route); err != nil {
		t.Fatalf("make a default route: %v", err)
	}
	return neighbour
}
