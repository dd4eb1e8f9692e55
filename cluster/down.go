package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vigil/kubelet/node"
	"vigil/kubelet/untrusted"
)

// DownConfig says what Down and Reset work on.
type DownConfig struct {
	DataDir    string
	RuntimeDir string // programs of the container runtime; "": those that a node was started with
	Out        io.Writer
	Logger     *slog.Logger
}

// upGrace is how long a running Vigil may take to end before it is killed.
const upGrace = time.Minute

// Down stops everything of a data directory that runs, by whomever it was started and however that ended: the process that has
// the directory, kubelets, pods, container runtimes. It takes away what they have made outside of it: mounts, network namespaces, links, routes,
// packet rules and cgroups. The data stays, so `vigil up` carries on. What does not carry the directory's mark is not touched.
// It may be called again, and goes on where it was interrupted.
func Down(ctx context.Context, config DownConfig) error {
	config, dir, err := config.take(ctx)
	if err != nil || dir == nil {
		return err
	}
	defer dir.Close()
	return config.down(ctx)
}

// Reset does what Down does and removes the data directory. confirm is asked before anything happens; nil asks nobody.
func Reset(ctx context.Context, config DownConfig, confirm func(question string) (bool, error)) error {
	path, err := config.check()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(config.Out, "there is nothing in "+path)
		return nil
	}
	if err := looksOurs(path); err != nil {
		return err
	}
	if confirm != nil {
		yes, err := confirm("Stop the cluster and remove " + path + " with everything in it?")
		if err != nil {
			return err
		}
		if !yes {
			return errors.New("not confirmed, nothing was done")
		}
	}
	config, dir, err := config.take(ctx)
	if err != nil || dir == nil {
		return err
	}
	defer dir.Close()
	if err := config.down(ctx); err != nil {
		return err
	}
	if left, err := mountsBelow(path); err != nil || len(left) > 0 { // or what is mounted would be removed
		return errors.Join(fmt.Errorf("not removed: there are mounts in %s: %v", path, left), err)
	}
	if err := untrusted.Remove(ctx, path); err != nil {
		return fmt.Errorf("remove the data directory: %w", err)
	}
	fmt.Fprintln(config.Out, "removed "+path)
	return nil
}

func (c DownConfig) check() (string, error) {
	if c.DataDir == "" {
		return "", errors.New("--data-dir is empty")
	}
	return filepath.Abs(c.DataDir)
}

// looksOurs says what is wrong with a directory that is to be removed.
func looksOurs(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(path, lockName)); err != nil {
		return fmt.Errorf("%s is no data directory of Vigil: it has no file %s", path, lockName)
	}
	return nil
}

// take completes the configuration and takes the data directory from whoever has it; nil when there is none.
func (c DownConfig) take(ctx context.Context) (DownConfig, *dataDir, error) {
	path, err := c.check()
	if err != nil {
		return c, nil, err
	}
	c.DataDir = path
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(c.Out, "there is nothing in "+path)
		return c, nil, nil
	}
	if err := looksOurs(path); err != nil {
		return c, nil, err
	}
	if owner, held := lockOwner(path); held {
		if err := owner.end(ctx, upGrace); err != nil {
			return c, nil, err
		}
		fmt.Fprintf(c.Out, "stopped vigil (process %d)\n", owner.pid)
	}
	dir, err := openDataDir(path)
	return c, dir, err
}

// lockOwner is the process that has a data directory.
func lockOwner(path string) (owner process, held bool) {
	lock, err := os.Open(filepath.Join(path, lockName))
	if err != nil {
		return process{}, false
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return process{}, false
	}
	text, err := io.ReadAll(io.LimitReader(lock, 32))
	if err != nil {
		return process{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return process{}, false
	}
	return newProcess(pid), true
}

// nodesDir has the directories of the nodes.
func (c DownConfig) nodesDir() string { return node.Dirs(c.DataDir) }

// nodeDirs are the directories of the nodes that there have been.
func (c DownConfig) nodeDirs() ([]string, error) {
	entries, err := os.ReadDir(c.nodesDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, entry := range entries {
		if entry.IsDir() {
			dirs = append(dirs, node.Dir(c.DataDir, entry.Name()))
		}
	}
	return dirs, nil
}
