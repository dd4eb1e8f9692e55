package node

import (
	"context"
	"net/netip"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"vigil/informer"
	"vigil/kubelet/network"
)

// makeNetwork makes what keeps the network of the node's pods.
func (n *Node) makeNetwork(context.Context) error {
	var err error
	if n.informers, err = informer.NewFactory(n.rest, informer.Config{Logger: n.log}); err != nil {
		return err
	}
	n.parts = append(n.parts, part{"informers", n.informers.Run})
	own := informer.ResourceOf[*corev1.Node]()
	own.FieldSelector = "metadata.name=" + n.name
	n.node = informer.ListerFor[*corev1.Node](n.informers.Informer(own))
	if n.config.CNIConfDir == "" {
		n.config.CNIConfDir = "/etc/cni/net.d"
	}
	mode, err := network.ParseMode(n.config.NetworkMode)
	if err != nil {
		return err
	}
	if n.network, err = network.New(network.Config{
		NodeName: n.name, Owner: n.config.DataDir, Client: n.client, Informers: n.informers, Addresses: []netip.Addr{n.config.NodeIP},
		CNIConfDir: n.config.CNIConfDir, StateDir: filepath.Join(n.config.NodeDir, "network"), Mode: mode, Logger: n.log,
		ClusterCIDRs: n.config.ClusterCIDRs,
	}); err != nil {
		return err
	}
	n.parts = append(n.parts, part{"network", n.network.Run})
	return nil
}
