package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
)

// VolumeUsage is what a volume of a pod takes and could take.
type VolumeUsage struct {
	Name  string // the pod's
	Claim string // name of the PersistentVolumeClaim; "" for none
	// Local says that the volume counts as the pod's use of ephemeral storage: it is on the node's disk and the pod's own (emptyDir,
	// and what is made from objects). Memory says that it is in memory and counts there.
	Local, Memory bool
	// Limit is the emptyDir's sizeLimit in bytes, 0 for none.
	Limit int64

	UsedBytes, CapacityBytes, AvailableBytes uint64
	Inodes, InodesFree, InodesUsed           uint64
}

// Usage measures the volumes of a pod. Volumes that are file systems of their own are asked; directories on the node's disk are walked, which
// takes a while when they have many files. hostPath, block and image volumes have no usage. A volume that cannot be measured is left
// out, and the error says why.
func (m *Manager) Usage(pod types.UID) ([]VolumeUsage, error) {
	m.mu.Lock()
	p := m.pods[pod]
	m.mu.Unlock()
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	type one struct {
		made
		name string
	}
	var all []one
	for name, v := range p.volumes {
		all = append(all, one{*v, name})
	}
	p.mu.Unlock()
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	var usage []VolumeUsage
	var failed error
	for _, v := range all {
		u, ok, err := measure(&v.made)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("measure volume %s: %w", v.name, err))
			continue
		}
		if ok {
			u.Name = v.name
			usage = append(usage, u)
		}
	}
	return usage, failed
}

// Measurer is a plug-in that knows better than the file system what its volumes take.
type Measurer interface {
	// Measure fills in the sizes of u. known is false when it cannot tell: the file system is asked.
	Measure(v *Volume, u *VolumeUsage) (known bool, err error)
}

// measure measures one volume; ok is false when there is nothing to measure.
func measure(v *made) (u VolumeUsage, ok bool, err error) {
	dir := v.volume.Dir
	switch v.plugin.(type) {
	case hostPath, image:
		return u, false, nil
	}
	if v.volume.Block {
		return u, false, nil
	}
	if v.mounted.Path != "" {
		dir = v.mounted.Path
	}
	if measurer, yes := v.plugin.(Measurer); yes {
		if v.volume.Claim != nil {
			u.Claim = v.volume.Claim.Name
		}
		if known, err := measurer.Measure(v.volume, &u); known || err != nil {
			return u, known, err
		}
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return u, false, err
	}
	block := uint64(st.Bsize)
	u.CapacityBytes, u.AvailableBytes = st.Blocks*block, st.Bavail*block
	u.Inodes, u.InodesFree = st.Files, st.Ffree
	if v.volume.Claim != nil {
		u.Claim = v.volume.Claim.Name
	}
	if e := v.volume.Spec.EmptyDir; e != nil && e.SizeLimit != nil {
		u.Limit = e.SizeLimit.Value()
	}
	own, err := sameDevice(dir, filepath.Dir(dir))
	if err != nil {
		return u, false, err
	}
	if !v.mounted.Own || !own {
		u.Memory = v.mounted.Own
		u.UsedBytes, u.InodesUsed = (st.Blocks-st.Bfree)*block, st.Files-st.Ffree
		return u, true, nil
	}
	u.Local = true
	u.UsedBytes, u.InodesUsed, err = diskUse(dir)
	return u, true, err
}

// sameDevice says that two directories are on one file system.
func sameDevice(a, b string) (bool, error) {
	var x, y syscall.Stat_t
	if err := syscall.Stat(a, &x); err != nil {
		return false, err
	}
	if err := syscall.Stat(b, &y); err != nil {
		return false, err
	}
	return x.Dev == y.Dev, nil
}

// diskUse adds up what the files below dir take on its file system, each once, and how many there are.
func diskUse(dir string) (bytes, inodes uint64, err error) {
	type inode struct{ dev, ino uint64 }
	var device uint64
	linked := map[inode]struct{}{}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		if path == dir {
			device = uint64(st.Dev)
		}
		if uint64(st.Dev) != device {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if st.Nlink > 1 && !entry.IsDir() {
			id := inode{uint64(st.Dev), uint64(st.Ino)}
			if _, seen := linked[id]; seen {
				return nil
			}
			linked[id] = struct{}{}
		}
		bytes += uint64(st.Blocks) * 512
		inodes++
		return nil
	})
	return bytes, inodes, err
}
