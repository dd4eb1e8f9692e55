package stats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/panics"
	"vigil/kubelet/machine"
	"vigil/kubelet/untrusted"
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

// countPatience is how long a count waits for pods that are being measured. They go on being measured, and what is found out counts then.
const countPatience = 10 * time.Second

// CountDisks counts what all pods have on disk from now on, and how full the runtime's file systems are. Run does it once a minute.
//
// Each pod is measured by a goroutine of its own, by one at a time: a pod with millions of files, or on a file system that does not answer, keeps
// its old figures for as long as that takes, and holds up no other. CountDisks waits a while for all, but not for ever.
func (p *Provider) CountDisks(ctx context.Context) error {
	return p.countDisks(ctx, func(types.UID) bool { return true })
}

// countNewDisks counts the pods that have not been counted yet.
func (p *Provider) countNewDisks(ctx context.Context) error {
	return p.countDisks(ctx, func(uid types.UID) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.disks[uid] == nil && p.counting[uid] == nil
	})
}

func (p *Provider) countDisks(ctx context.Context, wanted func(types.UID) bool) error {
	files, err := p.fileSystems(ctx)
	layers, failed := p.layers(ctx)
	err = errors.Join(err, failed)
	pods := p.config.Pods()
	var counted []<-chan struct{}
	there := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		there[pod.UID] = true
		if wanted(pod.UID) {
			counted = append(counted, p.countBeside(ctx, pod, layers[pod.UID]))
		}
	}
	p.mu.Lock()
	maps.DeleteFunc(p.disks, func(uid types.UID, _ *podDisk) bool { return !there[uid] })
	if files != nil {
		p.files = files
	}
	p.mu.Unlock()
	patience := time.NewTimer(countPatience)
	defer patience.Stop()
	for _, done := range counted {
		select {
		case <-done:
		case <-patience.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// diskCount is a count of one pod's disk, under way or waiting for the one before.
type diskCount struct {
	measure func() (*podDisk, error)
	done    chan struct{} // closed when it has ended
	next    *diskCount    // asked for meanwhile; guarded by Provider.mu
}

// countBeside counts a pod in a goroutine. The channel it returns is closed when a count has ended that began after the call: one that is under
// way may have passed a file that has grown since, so another one follows it, for all who ask meanwhile.
func (p *Provider) countBeside(ctx context.Context, pod *corev1.Pod, layers map[string]layer) <-chan struct{} {
	count := &diskCount{done: make(chan struct{}), measure: func() (*podDisk, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		disk := p.countPod(ctx, pod, layers)
		return disk, ctx.Err() // a count that was broken off is none
	}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if running := p.counting[pod.UID]; running != nil {
		if running.next == nil {
			running.next = count
		}
		return running.next.done
	}
	p.counting[pod.UID] = count
	p.counters.Go(func() {
		for count := count; count != nil; {
			disk, err := panics.Call(p.config.Logger, panics.Node, count.measure, "namespace", pod.Namespace, "pod", pod.Name)
			count = p.endCount(pod.UID, count, disk, err)
		}
	})
	return count.done
}

// endCount publishes what a count has found unless it failed, and returns the count that follows, if somebody has asked for one.
func (p *Provider) endCount(pod types.UID, count *diskCount, disk *podDisk, err error) (next *diskCount) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.disks[pod] = disk
	}
	if count.next == nil {
		delete(p.counting, pod)
	} else {
		p.counting[pod] = count.next
	}
	close(count.done)
	return count.next
}

// layers asks the runtime for the writable layers of pods' containers, by container ID.
func (p *Provider) layers(ctx context.Context) (map[types.UID]map[string]layer, error) {
	answer, err := p.config.Runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask for writable layers: %w", err)
	}
	layers := map[types.UID]map[string]layer{}
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
	return layers, nil
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

func (p *Provider) countPod(ctx context.Context, pod *corev1.Pod, layers map[string]layer) *podDisk {
	d := &podDisk{time: time.Now(), layers: layers, logs: map[string]usedDisk{}}
	if p.config.Volumes != nil {
		d.volumes = p.config.Volumes(ctx, pod.UID)
	}
	logs := filepath.Join(p.config.LogDir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
	entries, _ := os.ReadDir(logs) // a pod without logs has none
	for _, entry := range entries {
		if entry.IsDir() {
			d.logs[entry.Name()] = count(ctx, filepath.Join(logs, entry.Name()))
		}
	}
	d.other = count(ctx, filepath.Join(p.config.RootDir, "pods", string(pod.UID), "etc-hosts"))
	return d
}

// count measures what is below a path. What cannot be measured counts as far as it could.
func count(ctx context.Context, path string) usedDisk {
	used, _ := untrusted.Measure(ctx, path) // it may have gone
	return usedDisk{bytes: used.Bytes, inodes: used.Inodes}
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
