package mount

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount mounts a file system. Options are those of mount(8): flags like "ro" and "noexec" are told from the file system's own.
func Mount(source, target, fstype string, options ...string) error {
	flags, data := split(options)
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		return &os.PathError{Op: "mount " + fstype, Path: target, Err: err}
	}
	return nil
}

// Bind makes source visible at target, without what is mounted below it: where mounts are shared, unmounting a copy of that would unmount
// the original. Both exist, and are both directories or both none.
func Bind(source, target string, readOnly bool) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "bind " + source, Path: target, Err: err}
	}
	if !readOnly {
		return nil
	}
	return setReadOnly(target)
}

// setReadOnly makes a mount read-only and keeps the other flags it has.
func setReadOnly(target string) error {
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	err := unix.MountSetattr(unix.AT_FDCWD, target, 0, attr)
	if errors.Is(err, unix.ENOSYS) { // Linux before 5.12
		var fs unix.Statfs_t
		if err := unix.Statfs(target, &fs); err != nil {
			return &os.PathError{Op: "statfs", Path: target, Err: err}
		}
		const kept = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME
		err = unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|uintptr(fs.Flags)&kept, "")
	}
	if err != nil {
		return &os.PathError{Op: "remount read-only", Path: target, Err: err}
	}
	return nil
}

// Unmount takes away what was mounted at target last. It fails with EBUSY while somebody of this mount namespace uses it. That
// nothing is mounted there, or nothing is there, is no error.
func Unmount(target string) error {
	err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &os.PathError{Op: "unmount", Path: target, Err: err}
}

// IsMount says whether something is mounted at path itself. It fails when path does not exist.
func IsMount(path string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	if err != nil {
		return false, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// Shared makes changes of mounts below dir visible in the mount namespaces of containers (mountPropagation), and theirs here: dir
// becomes a mount of its own where the one that it is on is not shared already.
func Shared(dir string) error {
	table, err := Table()
	if err != nil {
		return err
	}
	at := table.Of(dir)
	if at == nil {
		return fmt.Errorf("find the mount of %s: there is none", dir)
	}
	if at.Shared {
		return nil
	}
	if at.Path != dir {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return &os.PathError{Op: "bind to itself", Path: dir, Err: err}
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return &os.PathError{Op: "share mounts below", Path: dir, Err: err}
	}
	return nil
}

// split separates the options that are flags of mount(2) from the file system's data.
func split(options []string) (flags uintptr, data string) {
	var rest []string
	for _, option := range options {
		if f, ok := mountFlags[option]; ok {
			flags = flags&^f.clear | f.set
			continue
		}
		rest = append(rest, option)
	}
	return flags, strings.Join(rest, ",")
}

// mountFlags are the options of mount(8) that mount(2) has flags for.
var mountFlags = map[string]struct{ set, clear uintptr }{
	"defaults":      {},
	"ro":            {set: unix.MS_RDONLY},
	"rw":            {clear: unix.MS_RDONLY},
	"suid":          {clear: unix.MS_NOSUID},
	"nosuid":        {set: unix.MS_NOSUID},
	"dev":           {clear: unix.MS_NODEV},
	"nodev":         {set: unix.MS_NODEV},
	"exec":          {clear: unix.MS_NOEXEC},
	"noexec":        {set: unix.MS_NOEXEC},
	"sync":          {set: unix.MS_SYNCHRONOUS},
	"async":         {clear: unix.MS_SYNCHRONOUS},
	"dirsync":       {set: unix.MS_DIRSYNC},
	"atime":         {clear: unix.MS_NOATIME},
	"noatime":       {set: unix.MS_NOATIME},
	"diratime":      {clear: unix.MS_NODIRATIME},
	"nodiratime":    {set: unix.MS_NODIRATIME},
	"relatime":      {set: unix.MS_RELATIME},
	"norelatime":    {clear: unix.MS_RELATIME},
	"strictatime":   {set: unix.MS_STRICTATIME},
	"nostrictatime": {clear: unix.MS_STRICTATIME},
	"bind":          {set: unix.MS_BIND},
	"rbind":         {set: unix.MS_BIND | unix.MS_REC},
	"remount":       {set: unix.MS_REMOUNT},
}

// Busy says that an Unmount failed because somebody uses what is mounted; that passes.
func Busy(err error) bool { return errors.Is(err, unix.EBUSY) }
