package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"

	"vigil/cluster"
)

// podNetworkFlags are what the controller manager is told of the networks of pods.
type podNetworkFlags struct {
	networks                  cluster.PodNetworks
	clusterCIDR, serviceRange string
	size                      int
}

func (f *podNetworkFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.networks.Allocate, "allocate-node-cidrs", false, "give every node a network for its pods, from --cluster-cidr")
	flags.StringVar(&f.clusterCIDR, "cluster-cidr", "", "network of all pods, or one IPv4 and one IPv6, with a comma between")
	flags.StringVar(&f.serviceRange, "service-cluster-ip-range", "", "networks of Services, which pods do not get")
	flags.IntVar(&f.size, "node-cidr-mask-size", 0, "length of a node's network (default 24 for IPv4, 64 for IPv6)")
	flags.IntVar(&f.networks.MaskSizeIPv4, "node-cidr-mask-size-ipv4", 0, "the same for IPv4, when there are both families (default 24)")
	flags.IntVar(&f.networks.MaskSizeIPv6, "node-cidr-mask-size-ipv6", 0, "the same for IPv6, when there are both families (default 64)")
}

func (f *podNetworkFlags) config() (cluster.PodNetworks, error) {
	networks := f.networks
	var err error
	if networks.ClusterCIDRs, err = parseNetworks("--cluster-cidr", f.clusterCIDR); err != nil {
		return networks, err
	}
	if networks.ServiceCIDRs, err = parseNetworks("--service-cluster-ip-range", f.serviceRange); err != nil {
		return networks, err
	}
	if f.size != 0 {
		if len(networks.ClusterCIDRs) > 1 {
			return networks, fmt.Errorf("--node-cidr-mask-size is for one address family; use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6")
		}
		networks.MaskSizeIPv4, networks.MaskSizeIPv6 = f.size, f.size
	}
	return networks, nil
}

// parseNetworks reads networks with commas between them.
func parseNetworks(flag, text string) ([]netip.Prefix, error) {
	if text == "" {
		return nil, nil
	}
	var networks []netip.Prefix
	for each := range strings.SplitSeq(text, ",") {
		network, err := netip.ParsePrefix(strings.TrimSpace(each))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		networks = append(networks, network.Masked())
	}
	return networks, nil
}
