package network

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"k8s.io/client-go/kubernetes"

	"vigil/informer"
)

// Mode says how packets reach pods of other nodes (--node-network-mode).
type Mode string

// The modes.
const (
	ModeAuto   Mode = "auto"    // host-gw to nodes on a network of this node, vxlan to others
	ModeHostGW Mode = "host-gw" // routes via the other node's address, to nodes on a network of this node only
	ModeVXLAN  Mode = "vxlan"   // VXLAN to all
	ModeNone   Mode = "none"    // somebody else sees to it: no routes, and no masquerading but for host ports
)

// ParseMode reads the value of --node-network-mode; "" is ModeAuto.
func ParseMode(text string) (Mode, error) {
	switch mode := Mode(text); mode {
	case "":
		return ModeAuto, nil
	case ModeAuto, ModeHostGW, ModeVXLAN, ModeNone:
		return mode, nil
	}
	return "", fmt.Errorf("--node-network-mode %s is not known; use auto, host-gw, vxlan or none", text)
}

// VXLAN's parameters, the same on all nodes of a cluster.
const (
	vxlanID   = 2459
	vxlanPort = 8472 // where Linux has always had it
)

// Config says what a node's network works with. NodeName, Owner, Client, Informers, Addresses, CNIConfDir and StateDir are needed.
type Config struct {
	NodeName string
	// Owner is the data directory that all this belongs to: `vigil down` finds links, routes and rules by it.
	Owner     string
	Client    kubernetes.Interface // writes the condition NetworkUnavailable of the own Node
	Informers *informer.Factory    // lists and watches Nodes; run by the caller
	Addresses []netip.Addr         // the node's InternalIPs, at most one of each family

	CNIConfDir string // gets vigil.conflist, "/etc/cni/net.d" of this node's runtime
	StateDir   string // keeps addresses given out and host ports, over restarts

	// ClusterCIDRs are the networks that nodes get theirs from. Nil: not known; then other nodes' are at most as large as this node's.
	ClusterCIDRs []netip.Prefix

	Mode   Mode // "": ModeAuto
	MTU    int  // of pods' interfaces; 0: the node's, less what VXLAN needs unless the mode is host-gw or none
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Mode == "" {
		c.Mode = ModeAuto
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for _, need := range []struct {
		is   bool
		what string
	}{
		{c.NodeName != "", "NodeName"}, {c.Owner != "", "Owner"}, {c.Client != nil, "Client"}, {c.Informers != nil, "Informers"},
		{len(c.Addresses) > 0, "Addresses"}, {c.CNIConfDir != "", "CNIConfDir"}, {c.StateDir != "", "StateDir"},
	} {
		if !need.is {
			return c, errors.New("node network: Config." + need.what + " is empty")
		}
	}
	return c, nil
}

// names are what a node's links and tables are called. Links have at most 15 bytes:
//
//	vgb 3f9a01 7c2e
//	    owner  node
type names struct {
	bridge, vxlan string
	rules, ports  string // nftables tables of the family inet
	alias         string // of links, for people and for `vigil down`
}

const (
	bridgePrefix  = "vgb"
	vxlanPrefix   = "vgx"
	segmentPrefix = "vgs" // a bridge that nodes on this machine share
	portPrefix    = "vgn" // a node's port of that
	tablePrefix   = "vigil-"
	aliasPrefix   = "vigil "
)

func namesFor(owner, node string) names {
	mark, id := hashed(owner, 6), hashed(node, 4)
	return names{
		bridge: bridgePrefix + mark + id, vxlan: vxlanPrefix + mark + id,
		rules: tablePrefix + mark + "-" + id, ports: tablePrefix + mark + "-" + id + "-ports",
		alias: aliasOf(owner) + " " + node,
	}
}

// aliasOf is how the alias of every link begins that belongs to a data directory.
func aliasOf(owner string) string { return aliasPrefix + owner }

func hashed(text string, digits int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:digits]
}
