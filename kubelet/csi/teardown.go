package csi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"vigil/kubelet/volumes"
)

// TearDown implements volumes.Plugin. The driver is asked to undo what it was asked to do, also when nobody knows how far that came; it
// must be registered for that.
func (p *Plugin) TearDown(ctx context.Context, place volumes.Place) error {
	p.tokens.forget(place.PodUID)
	d, ok, err := read(p.dataDir(place))
	if err != nil {
		return err
	}
	if !ok { // no driver has heard of it
		if err := volumes.RemoveVolume(ctx, p.pathsOf(place, d).published); err != nil {
			return err
		}
		return p.removePlace(ctx, place)
	}
	defer p.volumes.lock(lockKey(d))()
	at := p.pathsOf(place, d)
	driver, err := p.driver(ctx, d.Driver)
	if err != nil {
		return fmt.Errorf("kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: %w", err)
	}
	if err := driver.call(ctx, func(ctx context.Context, node csi.NodeClient) error {
		_, err := node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: d.Handle, TargetPath: at.published})
		return err
	}); err != nil {
		return fmt.Errorf("kubernetes.io/csi: Unmounter.TearDownAt failed: %w", err)
	}
	if err := volumes.RemoveVolume(ctx, at.published); err != nil {
		return err
	}
	shared, err := p.shares(place, d)
	if err != nil {
		return err
	}
	if !shared && d.Lifecycle != ephemeral {
		if err := p.unstage(ctx, driver, place, d, at); err != nil {
			return err
		}
	}
	if err := p.removePlace(ctx, place); err != nil {
		return err
	}
	p.unuse(place, d)
	return nil
}

// unstage undoes stage, when no pod has the volume any more.
func (p *Plugin) unstage(ctx context.Context, driver *connected, place volumes.Place, d data, at paths) error {
	_, err := os.Lstat(at.staged)
	if err == nil && driver.can[csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		err := driver.call(ctx, func(ctx context.Context, node csi.NodeClient) error {
			_, err := node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: d.Handle, StagingTargetPath: at.staged})
			return err
		})
		if err != nil {
			return fmt.Errorf("kubernetes.io/csi: attacher.UnmountDevice failed: %w", err)
		}
	}
	p.setStaged(d, false)
	return p.removeStage(ctx, place, at)
}

// removeStage removes the directories of a volume that is not staged any more.
func (p *Plugin) removeStage(ctx context.Context, place volumes.Place, at paths) error {
	if err := volumes.RemoveVolume(ctx, at.staged); err != nil {
		return err
	}
	if place.IsBlock {
		if err := removeFile(filepath.Dir(at.published)); err != nil {
			return err
		}
		return volumes.RemoveVolume(ctx, filepath.Dir(at.data))
	}
	return volumes.RemoveVolume(ctx, at.stageData)
}

// removePlace removes what the pod has of a volume that is unpublished.
func (p *Plugin) removePlace(ctx context.Context, place volumes.Place) error {
	if place.IsBlock {
		return removeFile(place.Dir)
	}
	return volumes.RemoveVolume(ctx, place.Dir)
}
