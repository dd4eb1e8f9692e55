package cri

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet"
	"vigil/kubelet/untrusted"
)

// kept is how many ended attempts of each container stay: the last one and the one that --previous shows.
const kept = 2

// Collect implements kubelet.Runtime. It also removes sandboxes that newer ones have replaced, and logs of pods that nobody wants.
func (r *Runtime) Collect(ctx context.Context, wanted func(pod types.UID) bool) error {
	pods, err := r.Pods(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		switch {
		case wanted(pod.UID):
			err = errors.Join(err, r.collectPod(ctx, pod.UID))
		case !r.runs(pod.UID):
			err = errors.Join(err, r.RemovePod(ctx, pod.UID))
		}
	}
	return errors.Join(err, r.collectLogs(ctx, wanted), r.collectLinks())
}

// runs says whether anything of a pod still runs; what nobody wants is stopped by others first.
func (r *Runtime) runs(uid types.UID) bool {
	known := r.cache.known(uid)
	for _, s := range known.sandboxes {
		if s.live {
			return true
		}
	}
	for _, c := range known.containers {
		if c.State == kubelet.ContainerRunning {
			return true
		}
	}
	return false
}

func (r *Runtime) collectPod(ctx context.Context, uid types.UID) error {
	view, _ := r.cache.view(uid)
	attempts := map[string]int{}
	var err error
	for _, c := range view.containers {
		attempts[c.Name]++
		if attempts[c.Name] <= kept || c.State != kubelet.ContainerExited {
			continue
		}
		err = errors.Join(err, r.RemoveContainer(ctx, c.ID), removeLogs(c))
	}
	for _, id := range r.cache.replaced(uid) {
		err = errors.Join(err, r.removeSandbox(ctx, uid, id))
	}
	return err
}

// collectLogs removes log directories of pods that are neither wanted nor there. Young ones may be of a pod that begins.
func (r *Runtime) collectLogs(ctx context.Context, wanted func(pod types.UID) bool) error {
	dirs, err := os.ReadDir(r.config.LogDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, dir := range dirs {
		at := strings.LastIndexByte(dir.Name(), '_')
		uid := types.UID(dir.Name()[at+1:])
		if at < 0 || !dir.IsDir() || wanted(uid) || r.cache.has(uid) {
			continue
		}
		if info, statErr := dir.Info(); statErr != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		err = errors.Join(err, untrusted.Remove(ctx, filepath.Join(r.config.LogDir, dir.Name())))
	}
	return err
}
