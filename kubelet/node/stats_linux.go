package node

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/machine"
	"vigil/kubelet/stats"
	"vigil/kubelet/volumes"
)

// makeStats makes what measures pods and the node, for all that want to know.
func (n *Node) makeStats(context.Context) error {
	n.stats = stats.New(stats.Config{
		Node: n.name, Pods: func() []*corev1.Pod { return n.kubelet.Pods() }, Runtime: n.runtime.Client(), Images: n.runtime.ImageClient(), Groups: n.cgroups,
		RootDir: n.config.RootDir, LogDir: n.config.PodLogDir, DiskPeriod: n.config.VolumeStatsPeriod, Volumes: volumeStats(n.volumes, n.log), Logger: n.log,
	})
	n.parts = append(n.parts, part{"stats", n.stats.Run})
	return n.registry.Register(n.stats.Collector())
}

// volumeStats has volumes measured where they are made.
func volumeStats(from *volumes.Manager, log *slog.Logger) func(context.Context, types.UID) []stats.Volume {
	return func(ctx context.Context, pod types.UID) []stats.Volume {
		measured, err := from.Usage(ctx, pod)
		if err != nil {
			log.Debug("the kubelet cannot measure the volumes of a pod; its statistics lack them", "uid", pod, "error", err)
		}
		all := make([]stats.Volume, len(measured))
		for i, v := range measured {
			all[i] = stats.Volume{
				Name: v.Name, Claim: v.Claim, Local: v.Local, Bytes: v.UsedBytes, Inodes: v.InodesUsed,
				Filesystem: machine.Filesystem{
					Capacity: v.CapacityBytes, Available: v.AvailableBytes, Inodes: v.Inodes, InodesFree: v.InodesFree,
				},
			}
		}
		return all
	}
}
