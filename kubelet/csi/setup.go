package csi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"vigil/kubelet/volumes"
	"vigil/kubelet/volumes/mount"
)

// SetUp implements volumes.Plugin.
func (p *Plugin) SetUp(ctx context.Context, v *volumes.Volume) (volumes.Mounted, error) {
	s := p.sourceOf(v)
	if !safeName(s.Driver) || v.Block && !safeName(v.Name) {
		return volumes.Mounted{}, fmt.Errorf("driver %q, volume %q: they cannot be names of directories", s.Driver, v.Name)
	}
	at := p.pathsOf(v.Place, s.data)
	old, was, err := read(at.data)
	if err != nil {
		return volumes.Mounted{}, err
	}
	if was && !old.same(s.data) {
		return volumes.Mounted{}, fmt.Errorf("there is volume %s of driver %s in the place of volume %s of driver %s", old.Handle, old.Driver, s.Handle, s.Driver)
	}
	if err := p.describe(ctx, s); err != nil {
		return volumes.Mounted{}, err
	}
	defer p.volumes.lock(lockKey(s.data))()
	mine := was && p.has(v, old) // the pod has it already
	mounted := mountedAt(s, v, at)
	if s.republished() {
		mounted.Again = time.Now().Add(republishPeriod)
	} else if there, err := mount.IsMount(at.published); mine && err == nil && there {
		return mounted, nil // as another process has left it; whether the driver is there does not matter
	}
	if mine {
		s.Done = old.Done
	}
	if err := p.awaitAttach(ctx, s); err != nil {
		return volumes.Mounted{}, err
	}
	driver, err := p.driver(ctx, s.Driver)
	if err != nil {
		return volumes.Mounted{}, p.unreachable(v, err)
	}
	if err := p.begin(v, s, at); err != nil {
		return volumes.Mounted{}, err
	}
	if err := p.stage(ctx, driver, v, s, at); err != nil {
		if final(err) && !mine {
			p.abandon(ctx, v, s.data, at)
		}
		step := "MountVolume.MountDevice"
		if v.Block {
			step = "MapVolume.SetUpDevice"
		}
		return volumes.Mounted{}, &volumes.StepError{Step: step, Err: err}
	}
	if err := p.publish(ctx, driver, v, s, at); err != nil {
		step := "MountVolume.SetUp"
		if v.Block {
			step = "MapVolume.MapPodDevice"
		}
		return volumes.Mounted{}, &volumes.StepError{Step: step, Err: err}
	}
	if s.owned(v, driver.can) && !mine {
		if err := volumes.SetOwnership(ctx, v, at.published, false); err != nil {
			return volumes.Mounted{}, err
		}
	}
	s.Done = done
	return mounted, s.data.write(at.data)
}

// has says that SetUp has succeeded for the pod, in this process or another.
func (p *Plugin) has(v *volumes.Volume, old data) bool {
	if v.Block { // whose data is not the pod's alone
		_, err := os.Lstat(v.Dir)
		return err == nil
	}
	return old.Done == done
}

// mountedAt is what the pod's containers get.
func mountedAt(s *source, v *volumes.Volume, at paths) volumes.Mounted {
	if v.Block {
		return volumes.Mounted{Device: at.published, ReadOnly: s.readOnly}
	}
	return volumes.Mounted{Path: at.published, ReadOnly: s.readOnly}
}

// unreachable is the error of a volume whose driver cannot be asked.
func (p *Plugin) unreachable(v *volumes.Volume, err error) error {
	switch {
	case v.Block:
		return fmt.Errorf("blockMapper.SetUpDevice failed to get CSI client: %w", err)
	case v.PV == nil:
		return fmt.Errorf("kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: %w", err)
	}
	return &volumes.StepError{Step: "MountVolume.MountDevice", Err: fmt.Errorf("kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: %w", err)}
}

// begin leaves on the disk that the pod has the volume, before the driver hears of it.
func (p *Plugin) begin(v *volumes.Volume, s *source, at paths) error {
	if err := s.data.write(at.data); err != nil {
		return err
	}
	if v.Block {
		if err := os.MkdirAll(filepath.Dir(at.published), 0o750); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(v.Dir), 0o750); err != nil {
			return err
		}
		if to, err := os.Readlink(v.Dir); err != nil || to != at.published {
			if err := removeFile(v.Dir); err != nil {
				return err
			}
			if err := os.Symlink(at.published, v.Dir); err != nil {
				return err
			}
		}
	}
	p.use(v.Place, s.data)
	return nil
}

// stage has the volume staged on the node, when the driver does that and has not done it for this process.
func (p *Plugin) stage(ctx context.Context, driver *connected, v *volumes.Volume, s *source, at paths) error {
	if s.Lifecycle == ephemeral || !driver.can[csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] || p.isStaged(s.data) {
		return nil
	}
	secrets, err := p.secrets(ctx, s.stageSecret)
	if err != nil {
		return fmt.Errorf("fetching NodeStageSecretRef %s/%s failed: %w", s.stageSecret.Namespace, s.stageSecret.Name, err)
	}
	if !v.Block {
		if err := (data{Handle: s.Handle, Driver: s.Driver}).write(at.stageData); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(at.staged, 0o750); err != nil {
		return err
	}
	err = driver.call(ctx, func(ctx context.Context, node csi.NodeClient) error {
		_, err := node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
			VolumeId: s.Handle, PublishContext: s.attach, StagingTargetPath: at.staged, VolumeCapability: s.capability(v, driver.can),
			Secrets: secrets, VolumeContext: s.attributes,
		})
		return err
	})
	if err == nil {
		p.setStaged(s.data, true)
	}
	return err
}

// publish has the volume published for the pod.
func (p *Plugin) publish(ctx context.Context, driver *connected, v *volumes.Volume, s *source, at paths) error {
	attributes, secrets, err := p.publishContext(ctx, s, v.Pod)
	if err != nil {
		return err
	}
	request := &csi.NodePublishVolumeRequest{
		VolumeId: s.Handle, PublishContext: s.attach, TargetPath: at.published, VolumeCapability: s.capability(v, driver.can), Readonly: s.readOnly,
		Secrets: secrets, VolumeContext: attributes,
	}
	if s.Lifecycle == persistent && driver.can[csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		request.StagingTargetPath = at.staged
	}
	return driver.call(ctx, func(ctx context.Context, node csi.NodeClient) error {
		_, err := node.NodePublishVolume(ctx, request)
		return err
	})
}

// abandon takes away what begin has left, when the driver has refused to stage: there is nothing that it would have to undo.
func (p *Plugin) abandon(ctx context.Context, v *volumes.Volume, d data, at paths) {
	shared, err := p.shares(v.Place, d)
	if err != nil {
		return // TearDown will see to it
	}
	if !shared {
		if err := p.removeStage(ctx, v.Place, at); err != nil {
			return
		}
	}
	if err := p.removePlace(ctx, v.Place); err != nil {
		return
	}
	p.unuse(v.Place, d)
}
