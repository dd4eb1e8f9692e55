package node

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"vigil/kubelet"
	"vigil/kubelet/network"
	"vigil/kubelet/simulated"
)

// simulated makes a node without containers.
func (c *Config) simulated(server *rest.Config) (run func(ctx context.Context) error, err error) {
	config := c.base(server)
	var k *kubelet.Kubelet
	config.Runtime = simulated.NewIn(func(ctx context.Context) (netip.Prefix, error) { return c.podNetwork(ctx, k) })
	config.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: Address().String()},
		{Type: corev1.NodeHostName, Address: c.NodeName},
	}
	config.System = corev1.NodeSystemInfo{OSImage: "simulated", KernelVersion: "simulated"}
	if k, err = kubelet.New(config); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return quiet(k.Run(ctx)) }, nil
}

// podNetworkPatience is how long the first pod of a simulated node waits for the node's network before it is tried again.
const podNetworkPatience = 10 * time.Second

// podNetwork is the network of a simulated node's pods.
func (c *Config) podNetwork(ctx context.Context, k *kubelet.Kubelet) (netip.Prefix, error) {
	if c.PodCIDR.IsValid() {
		return c.PodCIDR, nil
	}
	ctx, cancel := context.WithTimeout(ctx, podNetworkPatience)
	defer cancel()
	node, err := k.WaitForNode(ctx, func(node *corev1.Node) bool { return len(network.PodCIDRs(node)) > 0 })
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("pod network: %w", err)
	}
	return network.PodCIDRs(node)[0], nil
}
