package containerd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machine looks at where the daemon will run.
func (c Config) machine() (machine, error) {
	m := machine{snapshotter: c.Snapshotter}
	if m.snapshotter == "" {
		m.snapshotter = "overlayfs"
		if err := tryOverlay(c.RootDir); err != nil {
			c.Logger.Warn("overlay file systems cannot be mounted here; every container gets a copy of its image, which takes time and disk space", "error", err)
			m.snapshotter = "native"
		}
	}
	capable, err := hasCapability(unix.CAP_SYS_RESOURCE)
	if err != nil {
		return m, err
	}
	m.restrictOOMScore = !capable
	enabled, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	_, parser := os.Stat("/sbin/apparmor_parser")
	m.appArmor = err == nil && strings.HasPrefix(string(enabled), "Y") && parser == nil
	return m, nil
}

// tryOverlay mounts an overlay below dir and takes it away again.
func tryOverlay(dir string) (err error) {
	temp, err := os.MkdirTemp(dir, ".overlay-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(temp, name), 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", temp, temp, temp)
	merged := filepath.Join(temp, "merged")
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount an overlay in %s: %w", dir, err)
	}
	return unix.Unmount(merged, 0)
}

// hasCapability says whether this process has a capability in effect.
func hasCapability(capability uint) (bool, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "CapEff:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return mask&(1<<capability) != 0, err
		}
	}
	return false, errors.New("/proc/self/status has no capabilities")
}
