package containerd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Supported says why this process cannot run containers here, nil when it probably can. Being root is not enough: root in a
// container often may neither mount nor make network namespaces.
func Supported() error {
	if unix.Geteuid() != 0 {
		return errors.New("real containers need root")
	}
	for _, needed := range []struct {
		capability uint
		name, what string
	}{
		{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "mount file systems and make namespaces"},
		{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "set up networks"},
	} {
		has, err := hasCapability(needed.capability)
		if err != nil {
			return fmt.Errorf("look at this process's capabilities: %w", err)
		}
		if !has {
			return fmt.Errorf("this root may not %s (%s)", needed.what, needed.name)
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err != nil {
		return fmt.Errorf("there are no cgroups: %w", err)
	}
	if fs.Flags&unix.ST_RDONLY != 0 && fs.Type == unix.CGROUP2_SUPER_MAGIC {
		return errors.New("cgroups are read-only")
	}
	return nil
}
