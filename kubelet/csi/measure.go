package csi

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"vigil/kubelet/volumes"
)

// measureTimeout bounds the measuring of one volume: others wait for it.
const measureTimeout = 15 * time.Second

var _ volumes.Measurer = (*Plugin)(nil)

// Measure implements volumes.Measurer by asking the driver, when it can tell (GET_VOLUME_STATS).
func (p *Plugin) Measure(ctx context.Context, v *volumes.Volume, u *volumes.VolumeUsage) (known bool, err error) {
	s := p.sourceOf(v)
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	driver, err := p.driver(ctx, s.Driver)
	if err != nil || !driver.can[csi.NodeServiceCapability_RPC_GET_VOLUME_STATS] {
		return false, err
	}
	at := p.pathsOf(v.Place, s.data)
	request := &csi.NodeGetVolumeStatsRequest{VolumeId: s.Handle, VolumePath: at.published}
	if driver.can[csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] && s.Lifecycle == persistent {
		request.StagingTargetPath = at.staged
	}
	var answer *csi.NodeGetVolumeStatsResponse
	if err := driver.call(ctx, func(ctx context.Context, node csi.NodeClient) error {
		answer, err = node.NodeGetVolumeStats(ctx, request)
		return err
	}); err != nil {
		return false, err
	}
	for _, usage := range answer.GetUsage() {
		total, used, available := size(usage.Total), size(usage.Used), size(usage.Available)
		switch usage.Unit {
		case csi.VolumeUsage_BYTES:
			u.CapacityBytes, u.UsedBytes, u.AvailableBytes = total, used, available
		case csi.VolumeUsage_INODES:
			u.Inodes, u.InodesUsed, u.InodesFree = total, used, available
		}
	}
	return len(answer.GetUsage()) > 0, nil
}

// size is a figure of a driver, which cannot be less than nothing.
func size(n int64) uint64 { return uint64(max(n, 0)) }
