package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet"
	"vigil/kubelet/admit"
	"vigil/kubelet/env"
	"vigil/kubelet/etcfiles"
	"vigil/kubelet/machine"
)

// podsMayHave is what the pods of the node may have of the machine.
func (n *Node) podsMayHave() corev1.ResourceList { return n.allocatable }

func (n *Node) makeKubelet(context.Context) error {
	sysctls, err := admit.NewSysctls(n.config.UnsafeSysctls)
	if err != nil {
		return err
	}
	config := n.given.base(n.rest)
	config.Client, config.Recorder, config.Registerer = n.client, n.recorder, n.registry
	config.Runtime, config.RootDir, config.StaticPodPath = n.runtime, n.config.RootDir, n.config.StaticPodPath
	config.Capacity, config.Allocatable = n.capacity, n.allocatable
	config.System = machine.System(machine.Config{RootDir: n.config.RootDir})
	config.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.config.NodeIP.String()}, {Type: corev1.NodeHostName, Address: n.name}}
	config.Describe = n.describe
	config.Parts = kubelet.Parts{
		Objects: n.objects, Volumes: n.volumes, Cgroups: n.cgroups, HostPorts: n.network,
		Env: &env.Maker{Objects: n.objects, Services: env.NewServices(), RootDir: n.config.RootDir, Allocatable: n.podsMayHave},
		Files: &etcfiles.Files{RootDir: n.config.RootDir, Resolver: etcfiles.Resolver{
			ClusterDNS: n.config.ClusterDNS, ClusterDomain: n.config.ClusterDomain, ResolvConf: n.config.ResolvConf, NodeIPs: []string{n.config.NodeIP.String()},
		}},
		Admitters: []kubelet.Admitter{
			n.eviction, sysctls, &admit.AppArmor{Enabled: admit.AppArmorEnabled()},
			&admit.Node{Get: n.self},
		},
	}
	n.kubelet, err = kubelet.New(config)
	return err
}
