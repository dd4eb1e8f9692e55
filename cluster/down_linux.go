package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vigil/kubelet/cgroups"
	"vigil/kubelet/containerd"
	"vigil/kubelet/network"
	"vigil/kubelet/node"
)

// down is Down once the data directory is ours. It goes from the top: who starts things, then what was started, then what that leaves behind. A
// step that fails does not keep the others from being tried.
func (c DownConfig) down(ctx context.Context) error {
	nodes, err := c.nodeDirs()
	if err != nil || os.Geteuid() != 0 { // then there never were containers
		return err
	}
	var errs []error
	for _, dir := range nodes {
		errs = append(errs, c.stopNode(ctx, dir))
	}
	errs = append(errs, c.removeCgroups(node.Cgroups(c.DataDir)), c.unmount(c.nodesDir()), network.Remove(c.DataDir), forgetResults(c.DataDir))
	return errors.Join(errs...)
}

// stopFormerNodes does for nodes with real containers that an earlier run had and this one has not what down does for all.
func (c DownConfig) stopFormerNodes(ctx context.Context, keep func(node string) bool) error {
	nodes, err := c.nodeDirs()
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	var errs []error
	for _, dir := range nodes {
		name := filepath.Base(dir)
		if keep(name) || !hasRuntime(dir) {
			continue
		}
		errs = append(errs, c.stopNode(ctx, dir), c.removeCgroups(node.Cgroup(c.DataDir, name)), c.unmount(dir), network.NewSegment(c.DataDir).Leave(name))
	}
	return errors.Join(errs...)
}

// stopNode ends a node's kubelet, if it is a process of its own, and its containers, and frees the addresses of its pods.
func (c DownConfig) stopNode(ctx context.Context, dir string) error {
	if p, ok := readProcess(pidFile(dir)); ok && p.alive() {
		if err := p.end(ctx, nodeGrace); err != nil {
			return err
		}
	}
	_ = os.Remove(pidFile(dir))
	if hasRuntime(dir) { // it is not simulated, with another's runtime, or stopped before
		if err := c.stopRuntime(ctx, dir); err != nil {
			return fmt.Errorf("stop the containers of node %s: %w", filepath.Base(dir), err)
		}
		fmt.Fprintln(c.Out, "stopped node "+filepath.Base(dir))
	}
	return errors.Join(os.RemoveAll(filepath.Join(dir, "network", "addresses")), os.RemoveAll(filepath.Join(dir, "network", "hostports.json")))
}

// stopRuntime ends a node's containers and containerd, from within the node's network namespace if it has one: plug-ins take pods off there.
func (c DownConfig) stopRuntime(ctx context.Context, dir string) error {
	root := node.RuntimeDir(dir)
	stop := func() error {
		daemon, err := containerd.New(containerd.Config{BinDir: c.programsOf(root), RootDir: root, Logger: c.Logger})
		if err != nil {
			return err
		}
		return daemon.Stop(ctx)
	}
	namespace := network.NewSegment(c.DataDir).Namespace(filepath.Base(dir))
	if _, err := os.Stat(namespace); err == nil {
		return network.InNamespace(namespace, stop)
	}
	return stop()
}

// hasRuntime says whether a node has a containerd that runs, or that has left something behind.
func hasRuntime(dir string) bool {
	for _, path := range []string{filepath.Join(node.RuntimeDir(dir), "process.json"), containerd.DefaultStateDir(node.RuntimeDir(dir))} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

// programsOf says with which programs a node's containerd was started: its process.json tells.
func (c DownConfig) programsOf(root string) string {
	var started struct{ BinDir string }
	if c.RuntimeDir != "" {
		return c.RuntimeDir
	}
	if text, err := os.ReadFile(filepath.Join(root, "process.json")); err == nil && json.Unmarshal(text, &started) == nil && started.BinDir != "" {
		return started.BinDir
	}
	return node.Programs()
}

// removeCgroups kills what is left in a cgroup of nodes and removes it. Runtimes leave theirs in hierarchies that kubelets do not use, so
// all are looked through.
func (c DownConfig) removeCgroups(group string) error {
	tree, err := cgroups.New(cgroups.Config{Root: group})
	if err != nil {
		return nil // a machine without cgroups has none of ours
	}
	if err := tree.RemoveAll(); err != nil {
		return fmt.Errorf("remove cgroups: %w", err)
	}
	roots, err := filepath.Glob("/sys/fs/cgroup/*" + group)
	if err != nil {
		return err
	}
	var errs []error
	for _, root := range roots {
		errs = append(errs, removeDirs(root))
	}
	return errors.Join(errs...)
}

// removeDirs removes directories from the leaves up: cgroups have files that cannot be removed.
func removeDirs(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for i := len(dirs) - 1; i >= 0; i-- {
		if e := os.Remove(dirs[i]); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove cgroup: %w", e))
		}
	}
	return err
}
