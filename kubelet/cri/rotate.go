package cri

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/panics"
	"vigil/kubelet"
	"vigil/kubelet/untrusted"
)

// rotateInterval is how often logs are looked at: --container-log-monitor-interval's default.
const rotateInterval = 10 * time.Second

// compressedSize is how large a log that was put aside may be to be compressed, in sizes at which one is put aside: those of a container that prints
// more than that between two looks are left as they are.
const compressedSize = 16

// rotatedForm is the form of the suffix of a log that has been put aside, which sorts by age.
const rotatedForm = "20060102-150405"

// rotateLogs puts logs of containers that run aside when they have grown large, until ctx ends.
func (r *Runtime) rotateLogs(ctx context.Context) error {
	if r.config.LogMaxSize < 0 {
		return nil
	}
	tick := time.NewTicker(rotateInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		for _, c := range r.cache.running() {
			if err := panics.Try(r.logger, panics.Node, func() error { return r.rotateLog(ctx, c) }, "container", c.ID); err != nil && ctx.Err() == nil {
				r.logger.Warn("the kubelet could not rotate the log of a container; it tries again, and the log grows until then", "container", c.ID, "error", err)
			}
		}
	}
}

// running returns the containers that run.
func (c *cache) running() []*kubelet.Container {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*kubelet.Container
	for _, e := range c.pods {
		for _, one := range e.containers {
			if one.State == kubelet.ContainerRunning {
				all = append(all, &one.Container)
			}
		}
	}
	return all
}

// rotateLog puts one log aside if it is too large. The files of a log are, oldest last:
//
//	0.log  0.log.20060102-150405  0.log.20060101-120000.gz ...
//
// What was put aside last stays as it is, because someone may still read it; older ones are compressed.
func (r *Runtime) rotateLog(ctx context.Context, c *kubelet.Container) error {
	info, err := os.Lstat(c.LogPath)
	if errors.Is(err, os.ErrNotExist) {
		// A rotation was interrupted between its two steps.
		return r.reopenLog(ctx, c)
	}
	if err != nil || info.Size() < r.config.LogMaxSize {
		return err
	}
	old, err := filepath.Glob(c.LogPath + ".*")
	if err != nil {
		return fmt.Errorf("list rotated logs: %w", err)
	}
	old = slices.DeleteFunc(old, func(file string) bool {
		if strings.HasSuffix(file, ".tmp") { // of a compression that was interrupted
			err = errors.Join(err, os.Remove(file))
			return true
		}
		return false
	})
	slices.Sort(old)
	// One more is about to come, and the log itself counts.
	for len(old) > max(0, r.config.LogMaxFiles-2) {
		err = errors.Join(err, os.Remove(old[0]))
		old = old[1:]
	}
	for _, file := range old {
		if !strings.HasSuffix(file, ".gz") {
			err = errors.Join(err, compress(ctx, file, max(compressedSize*r.config.LogMaxSize, 1<<20)))
		}
	}
	if err != nil {
		return fmt.Errorf("make room for a rotated log: %w", err)
	}
	aside := c.LogPath + "." + time.Now().Format(rotatedForm)
	if err := os.Rename(c.LogPath, aside); err != nil {
		return fmt.Errorf("put the log aside: %w", err)
	}
	if err := r.reopenLog(ctx, c); err != nil {
		// The runtime goes on writing to the file that was put aside, which so becomes the log again.
		return errors.Join(err, os.Rename(aside, c.LogPath))
	}
	return nil
}

func (r *Runtime) reopenLog(ctx context.Context, c *kubelet.Container) error {
	if _, err := r.client.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: bare(c.ID)}); err != nil {
		return fmt.Errorf("reopen the log: %w", err)
	}
	return nil
}

// compress replaces a file by a compressed one, unless it is larger than limit: others wait for their turn, and it will be removed. A pod that
// may write to the directory of logs could have put anything there.
func compress(ctx context.Context, file string, limit int64) (err error) {
	from, err := untrusted.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was only read
	if info, err := from.Stat(); err != nil || info.Size() > limit {
		return err
	}
	temporary := file + ".tmp"
	to, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary) // the error that counts is the first
		}
	}()
	zip := gzip.NewWriter(to)
	_, err = io.Copy(zip, untilDone{ctx, io.LimitReader(from, limit)})
	if err = errors.Join(err, zip.Close(), to.Close()); err != nil {
		return err
	}
	if err = os.Rename(temporary, file+".gz"); err != nil {
		return err
	}
	return os.Remove(file)
}

// untilDone reads until ctx ends.
type untilDone struct {
	ctx  context.Context
	from io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.from.Read(p)
}
