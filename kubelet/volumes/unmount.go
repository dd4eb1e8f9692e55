package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/untrusted"
	"vigil/kubelet/volumes/mount"
)

// Unmount takes away the volumes of a pod, and then its directory with all that is in it. It needs nothing but what is on the disk. As long
// as something is mounted there that cannot be unmounted it fails and leaves everything below that mount alone; it may be called again.
func (m *Manager) Unmount(ctx context.Context, uid types.UID) error {
	if strings.ContainsAny(string(uid), "/") || uid == "" || uid == "." || uid == ".." {
		return fmt.Errorf("unmount volumes: %q is no UID", uid)
	}
	p := m.pod(uid)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.volumes = map[string]*made{}
	p.show()
	p.seen = seen{}
	p.requestDirty()
	dir := m.podDir(uid)
	failed := unmountBelow(ctx, filepath.Join(dir, "volume-subpaths")) // they keep volumes busy
	places, err := m.places(uid)
	failed = errors.Join(failed, err)
	for _, place := range places {
		if err := m.tearDown(ctx, place); err != nil {
			failed = errors.Join(failed, fmt.Errorf("unmount volume %s of pod %s: %w", place.Name, uid, err))
		}
	}
	if failed != nil {
		return failed
	}
	if err := mount.RemoveAll(ctx, dir); err != nil {
		return fmt.Errorf("remove the directory of pod %s: %w", uid, err)
	}
	m.forget(uid)
	return nil
}

// forget lets go of a pod whose lock is held.
func (m *Manager) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
	for _, plugin := range m.plugins {
		if f, ok := plugin.(interface{ forget(types.UID) }); ok {
			f.forget(uid)
		}
	}
}

// tearDown undoes a volume by its plug-in, or in the general way when that is not known any more.
func (m *Manager) tearDown(ctx context.Context, place Place) error {
	for _, plugin := range m.plugins {
		if plugin.Name() == place.Plugin {
			return plugin.TearDown(ctx, place)
		}
	}
	m.config.Logger.Warn("the kubelet unmounts a volume whose plug-in it does not know", "plugin", place.Plugin, "directory", place.Dir)
	return RemoveVolume(ctx, place.Dir)
}

// places are the volumes of a pod that the disk shows.
func (m *Manager) places(uid types.UID) ([]Place, error) {
	var places []Place
	for _, kind := range []string{"volumes", "volumeDevices"} {
		top := filepath.Join(m.podDir(uid), kind)
		plugins, err := os.ReadDir(top)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list volumes of pod %s: %w", uid, err)
		}
		for _, plugin := range plugins {
			if !plugin.IsDir() {
				continue
			}
			names, err := os.ReadDir(filepath.Join(top, plugin.Name()))
			if err != nil {
				return nil, fmt.Errorf("list volumes of pod %s: %w", uid, err)
			}
			for _, name := range names {
				places = append(places, Place{
					PodUID: uid, Plugin: strings.Replace(plugin.Name(), "~", "/", 1), Name: name.Name(),
					Dir: filepath.Join(top, plugin.Name(), name.Name()), IsBlock: kind == "volumeDevices",
				})
			}
		}
	}
	return places, nil
}

// RemoveVolume unmounts what is mounted at dir and removes dir with what is in it. It fails, and removes nothing, when something is mounted
// below it, or stays busy. What is not there is no error.
func RemoveVolume(ctx context.Context, dir string) error {
	const most = 100 // mounts on top of each other; a mount of another namespace's is never gone
	for range most {
		there, err := mount.IsMount(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if !there {
			return mount.RemoveAll(ctx, dir)
		}
		if err := unmount(ctx, dir); err != nil {
			return err
		}
	}
	return &os.PathError{Op: "unmount", Path: dir, Err: untrusted.ErrMounted}
}

// unmount unmounts what is mounted at target last. What is busy may not be so in a moment: a container that has just ended, a search
// that looks everywhere.
func unmount(ctx context.Context, target string) error {
	const tries = 5
	for try := 1; ; try++ {
		err := mount.Unmount(target)
		if err == nil || !mount.Busy(err) || try == tries {
			return err
		}
		timer := time.NewTimer(time.Duration(try) * 10 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// unmountBelow unmounts all that is mounted at dir and below.
func unmountBelow(ctx context.Context, dir string) error {
	below, err := mount.Below(dir)
	if err != nil {
		return err
	}
	var failed error
	for _, at := range below {
		failed = errors.Join(failed, unmount(ctx, at.Path))
	}
	return failed
}
