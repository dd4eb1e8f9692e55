package stats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet/machine"
)

// podDisk is what a pod has on disk. It is never changed once it is published.
type podDisk struct {
	time    time.Time
	volumes []Volume
	layers  map[string]layer    // writable layers by container ID
	logs    map[string]usedDisk // by container name
	other   usedDisk            // what the kubelet itself keeps for the pod: etc-hosts
}

// usedDisk is what files take.
type usedDisk struct{ bytes, inodes uint64 }

func (u *usedDisk) add(other usedDisk) {
	u.bytes += other.bytes
	u.inodes += other.inodes
}

type layer struct {
	usedDisk
	time time.Time
}

// Volume is what a volume of a pod takes.
type Volume struct {
	Name  string // the pod's
	Claim string // of a PersistentVolumeClaim; "": none
	// Local says that it counts as the pod's use of ephemeral storage: it is on the node's disk, and gone with the pod.
	Local         bool
	Bytes, Inodes uint64
	Filesystem    machine.Filesystem // that it is on
}

// fileSystems are those of the runtime.
type fileSystems struct {
	time           time.Time
	images, layers machine.Filesystem
	imagesUsed     usedDisk
	layersUsed     usedDisk
	imagesPath     string
	layersPath     string
	separate       bool // writable layers are on another file system than images
}

// CountDisks counts what all pods have on disk, and how full the runtime's file systems are. Run does it once a minute.
func (p *Provider) CountDisks(ctx context.Context) error {
	files, err := p.fileSystems(ctx)
	layers := map[types.UID]map[string]layer{}
	answer, failed := p.config.Runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("ask for writable layers: %w", failed))
	} else {
		for _, s := range answer.Stats {
			if s.WritableLayer == nil {
				continue
			}
			uid := types.UID(s.Attributes.GetLabels()[podUIDLabel])
			if layers[uid] == nil {
				layers[uid] = map[string]layer{}
			}
			used := usedDisk{bytes: s.WritableLayer.UsedBytes.GetValue(), inodes: s.WritableLayer.InodesUsed.GetValue()}
			layers[uid][s.Attributes.GetId()] = layer{usedDisk: used, time: time.Unix(0, s.WritableLayer.Timestamp)}
		}
	}
	disks := map[types.UID]*podDisk{}
	for _, pod := range p.config.Pods() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		disks[pod.UID] = p.countPod(pod, layers[pod.UID])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disks = disks
	if files != nil {
		p.files = files
	}
	return err
}

// fileSystems asks the runtime where it keeps things.
func (p *Provider) fileSystems(ctx context.Context) (*fileSystems, error) {
	info, err := p.config.Images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask for the file system of images: %w", err)
	}
	if len(info.ImageFilesystems) == 0 {
		return nil, errors.New("the runtime names no file system of images")
	}
	images := info.ImageFilesystems[0]
	found := &fileSystems{time: time.Now(), imagesUsed: usedOf(images)}
	found.imagesPath = images.GetFsId().GetMountpoint()
	found.layersPath = found.imagesPath
	if found.images, err = statNear(found.imagesPath); err != nil {
		return nil, fmt.Errorf("measure the file system of images: %w", err)
	}
	found.layers = found.images
	if len(info.ContainerFilesystems) > 0 {
		layers := info.ContainerFilesystems[0]
		found.layersUsed = usedOf(layers)
		found.layersPath = layers.GetFsId().GetMountpoint()
		if found.layers, err = statNear(found.layersPath); err != nil {
			return nil, fmt.Errorf("measure the file system of writable layers: %w", err)
		}
		found.separate = found.layers.Device != found.images.Device
	}
	return found, nil
}

// statNear measures the file system of a directory that may not have been made yet.
func statNear(path string) (machine.Filesystem, error) {
	for {
		found, err := machine.Stat(path)
		if !errors.Is(err, fs.ErrNotExist) || path == "/" || path == "." {
			return found, err
		}
		path = filepath.Dir(path)
	}
}

func usedOf(usage *runtimeapi.FilesystemUsage) usedDisk {
	return usedDisk{bytes: usage.GetUsedBytes().GetValue(), inodes: usage.GetInodesUsed().GetValue()}
}

func (p *Provider) countPod(pod *corev1.Pod, layers map[string]layer) *podDisk {
	d := &podDisk{time: time.Now(), layers: layers, logs: map[string]usedDisk{}}
	if p.config.Volumes != nil {
		d.volumes = p.config.Volumes(pod.UID)
	}
	logs := filepath.Join(p.config.LogDir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
	entries, _ := os.ReadDir(logs) // a pod without logs has none
	for _, entry := range entries {
		if entry.IsDir() {
			d.logs[entry.Name()] = count(filepath.Join(logs, entry.Name()))
		}
	}
	d.other = count(filepath.Join(p.config.RootDir, "pods", string(pod.UID), "etc-hosts"))
	return d
}

// count adds up what is below a path on its file system, a file with several names once.
func count(path string) (used usedDisk) {
	var device uint64
	linked := map[uint64]bool{}
	_ = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // it goes while we look, or may not be read
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		if device == 0 {
			device = uint64(stat.Dev)
		}
		if uint64(stat.Dev) != device {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if stat.Nlink > 1 && !entry.IsDir() {
			if linked[stat.Ino] {
				return nil
			}
			linked[stat.Ino] = true
		}
		used.add(usedDisk{bytes: uint64(stat.Blocks) * 512, inodes: 1})
		return nil
	})
	return used
}

// Layout says which file systems are one: whether images are elsewhere than the kubelet's files, and writable layers elsewhere than
// images. It asks the runtime where it keeps them unless that is known.
func (p *Provider) Layout(ctx context.Context) (separateImages, separateLayers bool, err error) {
	p.mu.Lock()
	files := p.files
	p.mu.Unlock()
	if files == nil {
		if files, err = p.fileSystems(ctx); err != nil {
			return false, false, err
		}
		p.mu.Lock()
		p.files = files
		p.mu.Unlock()
	}
	root, err := machine.Stat(p.config.RootDir)
	if err != nil {
		return false, false, fmt.Errorf("measure the kubelet's file system: %w", err)
	}
	return root.Device != files.images.Device, files.separate, nil
}

// refreshed is how full the runtime's file systems are now. What is theirs of it is as it was counted last.
func (f *fileSystems) refreshed() *fileSystems {
	if f == nil {
		return nil
	}
	fresh := *f
	images, err := statNear(f.imagesPath)
	if err != nil {
		return f
	}
	layers, err := statNear(f.layersPath)
	if err != nil {
		return f
	}
	fresh.images, fresh.layers, fresh.time = images, layers, time.Now()
	return &fresh
}
