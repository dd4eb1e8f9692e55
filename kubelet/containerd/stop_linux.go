package containerd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"vigil/kubelet/untrusted"
)

// clearState takes away what is left in the state directory: containers whose shim or containerd has died, shims, mounts
// and the directory itself, and mounts in the root directory.
func (d *Daemon) clearState(ctx context.Context) error {
	var failed []error
	failed = append(failed, d.deleteContainers(ctx), d.killShims())
	for _, dir := range []string{d.config.StateDir, d.config.RootDir} {
		failed = append(failed, unmountBelow(dir))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if err := untrusted.Remove(ctx, d.config.StateDir); err != nil {
		return fmt.Errorf("remove the container runtime's state: %w", err)
	}
	return nil
}

// deleteContainers has runc kill and delete the containers that it knows.
func (d *Daemon) deleteContainers(ctx context.Context) error {
	root := filepath.Join(d.config.runcDir(), namespace)
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var failed []error
	for _, entry := range entries {
		var errOut bytes.Buffer
		command := exec.CommandContext(ctx, d.config.program("runc"), "--root", root, "delete", "--force", entry.Name())
		command.Stderr = &errOut
		if err := command.Run(); err != nil {
			failed = append(failed, fmt.Errorf("delete container %s: %w: %s", entry.Name(), err, strings.TrimSpace(errOut.String())))
		}
	}
	return errors.Join(failed...)
}

// killShims kills the shims of this daemon: they are known by the address of containerd's socket in their arguments.
func (d *Daemon) killShims() error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(line), "\x00")
		if filepath.Base(args[0]) != "containerd-shim-runc-v2" || !slices.Contains(args, d.config.socket()) {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill shim %d: %w", pid, err)
		}
	}
	return nil
}

// unmountBelow takes away the mounts below a directory, the latest first, whether or not they are in use.
func unmountBelow(dir string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for lines := bufio.NewScanner(bytes.NewReader(table)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if point := unescape(fields[4]); strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	slices.Reverse(points)
	for _, point := range points {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return nil
}

// unescape undoes what the kernel does to blanks and the like in its table of mounts: \040.
func unescape(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '\\' && i+3 < len(path) {
			if code, err := strconv.ParseUint(path[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(path[i])
	}
	return out.String()
}
