package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/nodestatus"
)

// nodeStatus says what is to be told of the node.
func (k *Kubelet) nodeStatus() nodestatus.Config {
	c := &k.config
	return nodestatus.Config{
		NodeName: c.NodeName, Client: k.client, Informers: k.factory, Recorder: k.recorder, Runtime: c.Runtime, Logger: c.Logger,
		Labels: c.Labels, Taints: c.Taints, ProviderID: c.ProviderID, NoRegister: c.NoRegister, Volumes: c.RootDir != "",
		Capacity: c.Capacity, Allocatable: c.Allocatable, Addresses: c.Addresses, Describe: c.Describe, Version: c.Version, System: c.System,
		StatusUpdateFrequency: c.StatusUpdateFrequency, StatusReportFrequency: c.StatusReportFrequency, LeaseDuration: c.LeaseDuration,
	}
}

// NodeLabels are those that the kubelet gives its Node.
func (k *Kubelet) NodeLabels() map[string]string { return k.node.Labels() }

// WaitForNode waits until the API server has this kubelet's Node and it is as wanted, and returns it. It fails with ctx.
func (k *Kubelet) WaitForNode(ctx context.Context, wanted func(*corev1.Node) bool) (*corev1.Node, error) {
	return k.node.Wait(ctx, wanted)
}
