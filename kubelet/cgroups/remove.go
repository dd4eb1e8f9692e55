package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// removeTimeout is how long killed processes may take to end: a core dump or a slow disk may hold them up.
const removeTimeout = 10 * time.Second

// remove kills what runs in a group and below and removes it from every hierarchy.
func (t *Tree) remove(group string) error {
	wait := time.Millisecond
	for until := time.Now().Add(removeTimeout); ; time.Sleep(wait) {
		err := t.tryRemove(group)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("remove group %s: %w", group, err)
		}
		// A killed process stays in its group until it has let go of everything.
		if time.Now().After(until) {
			return fmt.Errorf("remove group %s: processes do not end: %w", group, err)
		}
		wait = min(2*wait, 100*time.Millisecond)
	}
}

// tryRemove kills and removes once; EBUSY says that there is somebody left.
func (t *Tree) tryRemove(group string) error {
	var errs []error
	for _, h := range t.hierarchies {
		dir := filepath.Join(h.dir, group)
		if h.unified {
			// The whole subtree at once, where the kernel can (5.14); else one by one below.
			_ = write(dir, "cgroup.kill", "1")
		}
		errs = append(errs, removeDir(dir))
	}
	return errors.Join(errs...)
}

// removeDir removes the directory of a group, deepest first. What lives there is killed.
func removeDir(dir string) error {
	if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			err = errors.Join(err, removeDir(filepath.Join(dir, entry.Name())))
		}
	}
	if err != nil {
		return err
	}
	if err := kill(dir); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// kill kills the processes of a group. One that is frozen dies when it is thawed, which a kill cannot do in v1: the file is tried.
func kill(dir string) error {
	pids, err := words(dir, "cgroup.procs")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, word := range pids {
		pid, err := strconv.Atoi(word)
		if err != nil || pid <= 1 || pid == os.Getpid() { // 0: a process of another PID namespace
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	_ = write(dir, "freezer.state", "THAWED")
	return nil
}
