package volumes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/untrusted"
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

// statTime bounds the question how full a file system is: the server of one may be gone.
const statTime = 5 * time.Second

// Usage measures the volumes of a pod. Volumes that are file systems of their own are asked; directories on the node's disk are walked, which
// takes a while when they have many files, and ends with ctx. hostPath, block and image volumes have no usage. A volume that cannot be measured
// is left out, and the error says why. It does not wait for a Mount of the pod.
//
// Directories are walked because that works on every file system. Quotas of projects would be exact at once, but need ext4 or XFS mounted for
// them, and a container with the node's users may give its files to another project.
func (m *Manager) Usage(ctx context.Context, pod types.UID) ([]VolumeUsage, error) {
	m.mu.Lock()
	p := m.pods[pod]
	m.mu.Unlock()
	if p == nil {
		return nil, nil
	}
	var usage []VolumeUsage
	var failed error
	for _, v := range p.measurable() {
		u, ok, err := measure(ctx, &v.made)
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

// shown is a volume as others than Mount see it; nobody changes it.
type shown struct {
	made
	name string
}

// measurable are the volumes that there were after the last Mount or Unmount, by name.
func (p *podVolumes) measurable() []shown {
	if all := p.shown.Load(); all != nil {
		return *all
	}
	return nil
}

// show makes the volumes that there are measurable. The caller holds mu.
func (p *podVolumes) show() {
	all := make([]shown, 0, len(p.volumes))
	for name, v := range p.volumes {
		volume := *v.volume
		all = append(all, shown{made{volume: &volume, plugin: v.plugin, mounted: v.mounted}, name})
	}
	slices.SortFunc(all, func(a, b shown) int { return strings.Compare(a.name, b.name) })
	p.shown.Store(&all)
}

// Measurer is a plug-in that knows better than the file system what its volumes take.
type Measurer interface {
	// Measure fills in the sizes of u. known is false when it cannot tell: the file system is asked.
	Measure(ctx context.Context, v *Volume, u *VolumeUsage) (known bool, err error)
}

// measure measures one volume; ok is false when there is nothing to measure.
func measure(ctx context.Context, v *made) (u VolumeUsage, ok bool, err error) {
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
	if v.volume.Claim != nil {
		u.Claim = v.volume.Claim.Name
	}
	if measurer, yes := v.plugin.(Measurer); yes {
		if known, err := measurer.Measure(ctx, v.volume, &u); known || err != nil {
			return u, known, err
		}
	}
	if e := v.volume.Spec.EmptyDir; e != nil && e.SizeLimit != nil {
		u.Limit = e.SizeLimit.Value()
	}
	at, err := untrusted.Within(statTime, func() (fileSystem, error) { return fileSystemOf(dir) })
	if err != nil {
		return u, false, err
	}
	u.CapacityBytes, u.AvailableBytes, u.Inodes, u.InodesFree = at.capacity, at.available, at.inodes, at.inodesFree
	if !v.mounted.Own || at.mounted {
		u.Memory = v.mounted.Own
		u.UsedBytes, u.InodesUsed = at.used, at.inodes-at.inodesFree
		return u, true, nil
	}
	u.Local = true
	files, err := untrusted.Measure(ctx, dir)
	if errors.Is(err, untrusted.ErrTooDeep) { // it could be anything: as much as there is
		files.Bytes, err = max(files.Bytes, at.capacity), nil
	}
	u.UsedBytes, u.InodesUsed = files.Bytes, files.Inodes
	return u, true, err
}

// fileSystem is what the file system of a directory says of itself.
type fileSystem struct {
	capacity, available, used uint64 // bytes
	inodes, inodesFree        uint64
	mounted                   bool // at the directory, which is not on that of the directory above
}

func fileSystemOf(dir string) (f fileSystem, err error) {
	var st syscall.Statfs_t
	var here, above syscall.Stat_t
	if err := errors.Join(syscall.Statfs(dir, &st), syscall.Stat(dir, &here), syscall.Stat(filepath.Dir(dir), &above)); err != nil {
		return f, err
	}
	block := uint64(st.Bsize)
	return fileSystem{
		capacity: st.Blocks * block, available: st.Bavail * block, used: (st.Blocks - st.Bfree) * block,
		inodes: st.Files, inodesFree: st.Ffree, mounted: here.Dev != above.Dev,
	}, nil
}
