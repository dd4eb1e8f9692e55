package mount

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// SetGroup gives dir and all that is below it to a group, and adds rights to what files and directories have. dir itself comes last, so
// that it is the group's only when everything is. Symlinks are given away themselves, never followed, whatever others do to the
// tree meanwhile; what disappears meanwhile is passed over.
func SetGroup(ctx context.Context, dir string, group int, file, directory os.FileMode) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	g := grouping{group: group, file: bits(file), directory: bits(directory)}
	return g.set(ctx, fd, dir)
}

type grouping struct {
	group           int
	file, directory uint32
}

// set changes an open file (O_PATH), and what is below it, and closes it.
func (g grouping) set(ctx context.Context, fd int, path string) error {
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	add := g.file
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		add = g.directory
		if err := g.below(ctx, fd, path); err != nil {
			return err
		}
	case unix.S_IFLNK:
		add = 0
	}
	changed := int(st.Gid) != g.group
	if changed {
		if err := unix.Fchownat(fd, "", -1, g.group, unix.AT_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "chown", Path: path, Err: err}
		}
	}
	mode := st.Mode & 0o7777
	if add == 0 || mode|add == mode && !changed {
		return nil
	}
	// Giving a file away has taken its setgid. There is no fchmod for a handle that is only a path.
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode|add); err != nil {
		return &os.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}

// below changes what is in an open directory.
func (g grouping) below(ctx context.Context, fd int, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	open, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(open), path)
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			child, err := unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if errors.Is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return &os.PathError{Op: "open", Path: filepath.Join(path, name), Err: err}
			}
			if err := g.set(ctx, child, filepath.Join(path, name)); err != nil {
				return err
			}
		}
	}
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
