package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// freshData returns a new copy of etcd's data with the given population. Both
// servers get copies of the same data.
func (e *environment) freshData(ctx context.Context, p population) (string, error) {
	dir := filepath.Join(e.ram, "etcd")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if p.pods == 0 {
		return dir, nil
	}
	kept := filepath.Join(e.ram, fmt.Sprintf("pods-%d-%d", p.pods, p.nodes))
	if _, err := os.Stat(kept); err != nil {
		if err := e.makeData(ctx, kept, p); err != nil {
			return "", fmt.Errorf("make %d pods: %w", p.pods, err)
		}
	}
	return dir, os.CopyFS(dir, os.DirFS(kept))
}

// makeData writes a population: copies of a pod that upstream's library stored.
func (e *environment) makeData(ctx context.Context, dir string, p population) error {
	template := filepath.Join(e.ram, "pod.stored")
	if _, err := os.Stat(template); err != nil {
		if err := e.makeTemplate(ctx, template); err != nil {
			return fmt.Errorf("the pod that all others are made of: %w", err)
		}
	}
	making := dir + ".tmp"
	etcd, err := e.startEtcd(ctx, making)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "\n== %d pods on %d nodes into etcd\n", p.pods, p.nodes)
	err = e.seed(ctx, "--pods", strconv.Itoa(p.pods), "--nodes", strconv.Itoa(p.nodes), "--template", template)
	etcd.stop(time.Minute)
	if err != nil {
		return err
	}
	return os.Rename(making, dir)
}

func (e *environment) makeTemplate(ctx context.Context, path string) error {
	dir := path + ".etcd"
	defer os.RemoveAll(dir)
	etcd, err := e.startEtcd(ctx, dir)
	if err != nil {
		return err
	}
	defer etcd.stop(time.Minute)
	p, _, err := e.startServer(ctx, peer)
	if err != nil {
		return err
	}
	defer p.stop(5 * time.Second)
	if out, err := exec.CommandContext(ctx, e.bin("load"), "create", "--pods", "1", "--conns", "1", "--kubeconfig", e.pki("admin.kubeconfig")).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return e.seed(ctx, "--save", path)
}

func (e *environment) seed(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, e.bin("load"), append([]string{"seed", "--etcd", e.etcdURL()}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
