package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vigil/internal/localvolume"
	"vigil/kubelet/volumes/mount"
)

// local makes PersistentVolumes that are directories or devices of this node. Those of the built-in provisioner are made on first use.
type local struct {
	dir string // of the provisioner's volumes; "": there are none
}

func (*local) Name() string { return "kubernetes.io/local-volume" }

func (*local) Supports(v *Volume) bool { return v.PV != nil && v.PV.Spec.Local != nil }

func (l *local) SetUp(ctx context.Context, v *Volume) (Mounted, error) {
	path := v.PV.Spec.Local.Path
	if localvolume.In(l.dir, v.PV) {
		if err := provide(path); err != nil {
			return Mounted{}, err
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return Mounted{}, fmt.Errorf("path %q does not exist: %w", path, err)
	}
	if v.Block {
		return mapDevice(v, path, info)
	}
	if info.Mode()&os.ModeDevice != 0 {
		return Mounted{}, fmt.Errorf("path %q is a device: it cannot be mounted without being formatted, use volumeMode Block", path)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return Mounted{}, err
	}
	if err := os.MkdirAll(v.Dir, 0o750); err != nil {
		return Mounted{}, err
	}
	there, err := mount.IsMount(v.Dir)
	if err != nil || there {
		return Mounted{}, err
	}
	if err := mount.Bind(path, v.Dir, v.ReadOnly); err != nil {
		_ = mount.Unmount(v.Dir) // a mount that could not be made read-only
		return Mounted{}, err
	}
	if v.ReadOnly {
		return Mounted{}, nil
	}
	if err := SetOwnership(ctx, v, v.Dir, false); err != nil {
		_ = mount.Unmount(v.Dir) // the next try begins anew
		return Mounted{}, err
	}
	return Mounted{}, nil
}

// provide makes the directory of a new volume, which all users may write to: nobody knows yet as whom its pods run.
func provide(path string) error {
	err := os.Mkdir(path, 0o777)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, 0o777) // whatever the umask
}

func (*local) TearDown(ctx context.Context, p Place) error {
	return RemoveVolume(ctx, p.Dir)
}

// mapDevice leaves a symlink to the device, which is how a volume with volumeMode Block is found on the disk.
func mapDevice(v *Volume, path string, info os.FileInfo) (Mounted, error) {
	if info.Mode()&os.ModeDevice == 0 || info.Mode()&os.ModeCharDevice != 0 {
		return Mounted{}, fmt.Errorf("path %q is not a block device", path)
	}
	if err := os.MkdirAll(filepath.Dir(v.Dir), 0o750); err != nil {
		return Mounted{}, err
	}
	if at, err := os.Readlink(v.Dir); err == nil && at == path {
		return Mounted{Device: path}, nil
	}
	_ = os.Remove(v.Dir) // a symlink to something else
	if err := os.Symlink(path, v.Dir); err != nil {
		return Mounted{}, err
	}
	return Mounted{Device: path}, nil
}
