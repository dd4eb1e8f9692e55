package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vigil/kubelet"
)

// Log collectors look for links to containers' logs in the directory "containers" beside that of the logs, /var/log/containers in
// upstream's layout:
//
//	<pod>_<namespace>_<container>-<ID>.log -> <pod-log-dir>/<namespace>_<pod>_<uid>/<container>/<attempt>.log

// linkLimit is how long a file's name may be.
const linkLimit = 255

func (r *Runtime) linkDir() string { return filepath.Join(filepath.Dir(r.config.LogDir), "containers") }

func linkName(pod kubelet.PodReference, container, id string) string {
	const suffix = ".log"
	name := fmt.Sprintf("%s_%s_%s-%s", pod.Name, pod.Namespace, container, id)
	return name[:min(len(name), linkLimit-len(suffix))] + suffix
}

// linkLog makes the link to the log of a container that has been started.
func (r *Runtime) linkLog(id string) error {
	c, uid := r.cache.container(id)
	if c == nil || c.LogPath == "" {
		return nil
	}
	if _, err := os.Stat(c.LogPath); errors.Is(err, os.ErrNotExist) {
		return nil // logs go elsewhere
	}
	if err := os.MkdirAll(r.linkDir(), 0o755); err != nil {
		return err
	}
	err := os.Symlink(c.LogPath, filepath.Join(r.linkDir(), linkName(r.cache.reference(uid), c.Name, c.bare)))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// collectLinks removes links whose logs have gone, except those of containers that run: their logs may just be being rotated.
func (r *Runtime) collectLinks() error {
	links, err := filepath.Glob(filepath.Join(r.linkDir(), "*.log"))
	if err != nil {
		return fmt.Errorf("list links to logs: %w", err)
	}
	running := map[string]bool{}
	for _, c := range r.cache.running() {
		running[bare(c.ID)] = true
	}
	for _, link := range links {
		if _, statErr := os.Stat(link); !errors.Is(statErr, os.ErrNotExist) {
			continue
		}
		id := strings.TrimSuffix(link[strings.LastIndexByte(link, '-')+1:], ".log")
		if !running[id] {
			err = errors.Join(err, os.Remove(link))
		}
	}
	return err
}
