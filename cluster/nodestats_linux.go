package cluster

import (
	"context"
	"log/slog"

	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/machine"
	"vigil/kubelet/stats"
	"vigil/kubelet/volumes"
)

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
