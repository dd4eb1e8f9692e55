package mount

import (
	"context"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"vigil/kubelet/untrusted"
)

// SetGroup gives dir and all that is below it on its file system to a group, and adds rights to what files and directories have. dir itself comes
// last, so that it is the group's only when everything is. Symlinks are given away themselves, never followed, whatever others do to
// the tree meanwhile; what disappears meanwhile is passed over. A tree of any depth takes a few descriptors.
func SetGroup(ctx context.Context, dir string, group int, file, directory os.FileMode) error {
	g := grouping{group: group, file: bits(file), directory: bits(directory)}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err := untrusted.Walk(ctx, dir, func(e untrusted.Entry) (enter bool, err error) {
			return g.set(e.Dir, e.Name, unix.O_NOFOLLOW)
		})
		if err != nil {
			return err
		}
	}
	if _, err := g.set(unix.AT_FDCWD, dir, 0); err != nil {
		return &os.PathError{Op: "set the group of", Path: dir, Err: err}
	}
	return nil
}

type grouping struct {
	group           int
	file, directory uint32
}

// set changes what has a name in an open directory, and says whether it is a directory.
func (g grouping) set(in int, name string, flags int) (directory bool, err error) {
	fd, err := unix.Openat(in, name, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	add := g.file
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		add, directory = g.directory, true
	case unix.S_IFLNK:
		add = 0
	}
	changed := int(st.Gid) != g.group
	if changed {
		if err := unix.Fchownat(fd, "", -1, g.group, unix.AT_EMPTY_PATH); err != nil {
			return directory, &os.PathError{Op: "chown", Path: name, Err: err}
		}
	}
	mode := st.Mode & 0o7777
	if add == 0 || mode|add == mode && !changed {
		return directory, nil
	}
	// Giving a file away has taken its setgid. There is no fchmod for a handle that is only a path.
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode|add); err != nil {
		return directory, &os.PathError{Op: "chmod", Path: name, Err: err}
	}
	return directory, nil
}

// bits is a mode as the kernel has it.
func bits(mode os.FileMode) uint32 {
	b := uint32(mode.Perm())
	if mode&os.ModeSetgid != 0 {
		b |= unix.S_ISGID
	}
	if mode&os.ModeSetuid != 0 {
		b |= unix.S_ISUID
	}
	if mode&os.ModeSticky != 0 {
		b |= unix.S_ISVTX
	}
	return b
}
