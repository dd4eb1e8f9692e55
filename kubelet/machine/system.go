package machine

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// System describes the machine as a Node's status does. What a machine does not tell is "". Versions of the kubelet and of the runtime are
// not its business.
func System(config Config) corev1.NodeSystemInfo {
	info := corev1.NodeSystemInfo{
		MachineID:       config.firstLine("etc/machine-id", "var/lib/dbus/machine-id"),
		SystemUUID:      config.firstLine("sys/class/dmi/id/product_uuid", "proc/device-tree/system-id", "proc/device-tree/vm,uuid", "etc/machine-id"),
		BootID:          config.firstLine("proc/sys/kernel/random/boot_id"),
		KernelVersion:   config.firstLine("proc/sys/kernel/osrelease"),
		OSImage:         config.osImage(),
		OperatingSystem: runtime.GOOS,
		Architecture:    runtime.GOARCH,
	}
	if swap, err := config.meminfo("SwapTotal:"); err == nil && swap > 0 {
		info.Swap = &corev1.NodeSwapStatus{Capacity: &swap}
	}
	return info
}

// firstLine is what the first of the files that says something says.
func (c Config) firstLine(files ...string) string {
	for _, file := range files {
		content, err := os.ReadFile(c.path(file))
		line, _, _ := bytes.Cut(content, []byte("\n"))
		if text := strings.TrimSpace(strings.TrimRight(string(line), "\x00")); err == nil && text != "" {
			return text
		}
	}
	return ""
}

// osImage is PRETTY_NAME of os-release(5).
func (c Config) osImage() string {
	for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
		content, err := os.ReadFile(c.path(file))
		if err != nil {
			continue
		}
		for scanner := bufio.NewScanner(bytes.NewReader(content)); scanner.Scan(); {
			if value, ok := strings.CutPrefix(scanner.Text(), "PRETTY_NAME="); ok {
				if unquoted, err := strconv.Unquote(value); err == nil {
					return unquoted
				}
				return strings.Trim(value, `'"`)
			}
		}
	}
	return "Linux"
}

// Filesystem is how full a file system is.
type Filesystem struct {
	Device              uint64 // the same for paths on the same file system
	Capacity, Available uint64 // bytes; Available is for users that are not root
	Inodes, InodesFree  uint64
	Used, InodesUsed    uint64
}

// Stat measures the file system that path is on.
func Stat(path string) (Filesystem, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return Filesystem{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	var file syscall.Stat_t
	if err := syscall.Stat(path, &file); err != nil {
		return Filesystem{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	block := uint64(s.Bsize)
	return Filesystem{
		Device: uint64(file.Dev), Capacity: s.Blocks * block, Available: s.Bavail * block, Used: (s.Blocks - s.Bfree) * block,
		Inodes: s.Files, InodesFree: s.Ffree, InodesUsed: s.Files - s.Ffree,
	}, nil
}
