package nstest

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// runInit is process 1: it prepares the namespaces, starts the tests, reaps what is orphaned and returns the tests' exit code. When it
// ends, the kernel kills all that is left.
func runInit() int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "nstest:", err)
		return 1
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nstest:", err)
		return 1
	}
	if err := os.Setenv(roleVariable, roleTest); err != nil {
		fmt.Fprintln(os.Stderr, "nstest:", err)
		return 1
	}
	// Not os/exec: its Wait would compete with the reaping below for the child's status.
	pid, err := syscall.ForkExec(self, os.Args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "nstest: start the tests:", err)
		return 1
	}
	go func() {
		for s := range signals {
			_ = syscall.Kill(pid, s.(syscall.Signal)) // it may just have ended
		}
	}()
	return reap(pid)
}

// reap waits for any child until the one of interest has ended, and returns its exit code as a shell would.
func reap(interest int) int {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR), err == nil && pid != interest:
			continue
		case err != nil:
			fmt.Fprintln(os.Stderr, "nstest: wait for the tests:", err)
			return 1
		case status.Signaled():
			fmt.Fprintln(os.Stderr, "nstest: the tests were ended by", status.Signal())
			return 128 + int(status.Signal())
		case status.Exited():
			return status.ExitStatus()
		}
	}
}

// prepare makes the new namespaces a place to work in.
func prepare() error {
	steps := []struct {
		what string
		do   func() error
	}{
		{"make mounts private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount /proc", func() error {
			return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		}},
		{"mount /run", mountRun},
		{"mount /sys", remountSys},
		{"mount /var/lib/cni", func() error { return emptyFileSystem("/var/lib/cni") }}, // where libcni caches results, whatever one says
		{"set lo up", func() error {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			return netlink.LinkSetUp(lo)
		}},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func emptyFileSystem(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755")
}

// mountRun makes /run empty. The resolver's configuration may live there, and is carried over.
func mountRun() error {
	const resolver = "/etc/resolv.conf"
	target, err := filepath.EvalSymlinks(resolver)
	carry := err == nil && target != resolver
	var content []byte
	if carry {
		content, _ = os.ReadFile(target)
	}
	if err := emptyFileSystem("/run"); err != nil {
		return err
	}
	if !carry {
		return nil
	}
	if _, err := os.Stat(target); err == nil {
		return nil // it lives elsewhere
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, content, 0o644)
}

// remountSys lets /sys show the network namespace. The cgroup hierarchies below it stay.
func remountSys() error {
	const cgroups = "/sys/fs/cgroup"
	aside := "/run/nstest-cgroup-" + strconv.Itoa(os.Getpid())
	if err := os.Mkdir(aside, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(cgroups, aside, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", cgroups, err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := unix.Mount(aside, cgroups, "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move %s back: %w", cgroups, err)
	}
	return os.Remove(aside)
}
