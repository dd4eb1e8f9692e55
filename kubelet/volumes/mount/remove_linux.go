package mount

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrMounted says that something is mounted where nothing may be.
var ErrMounted = errors.New("still mounted")

// RemoveAll removes path and what is below it like os.RemoveAll, but nothing that is mounted: it fails with ErrMounted before it
// removes anything when the table of mounts has something at path or below, and the kernel stops it at every mount that comes up
// meanwhile. Symlinks are removed, never followed.
func RemoveAll(path string) error {
	path = filepath.Clean(path)
	below, err := Below(path)
	if err != nil {
		return err
	}
	if len(below) > 0 {
		return &os.PathError{Op: "remove", Path: below[0].Path, Err: ErrMounted}
	}
	return RemoveTree(path)
}

// RemoveTree is RemoveAll without a look at the table of mounts: it removes what it finds before the kernel stops it at a mount.
func RemoveTree(path string) error {
	path = filepath.Clean(path)
	dir, name := filepath.Split(path)
	parent, err := unix.Open(filepath.Clean(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(parent)
	return removeAt(parent, name, path)
}

// removeAt removes what a directory has under a name. path is for errors.
func removeAt(parent int, name, path string) error {
	err := unix.Unlinkat(parent, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if errors.Is(err, unix.EBUSY) {
		return &os.PathError{Op: "remove", Path: path, Err: ErrMounted}
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	fd, err := unix.Openat2(parent, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS,
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EXDEV):
		return &os.PathError{Op: "remove", Path: path, Err: ErrMounted}
	case err != nil:
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	if err := emptyDir(fd, path); err != nil {
		return err
	}
	err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &os.PathError{Op: "remove", Path: path, Err: err}
}

// emptyDir removes what is in an open directory and closes it.
func emptyDir(fd int, path string) error {
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	var failed error
	for {
		names, err := dir.Readdirnames(1024)
		if len(names) == 0 {
			if failed == nil && !errors.Is(err, io.EOF) {
				failed = fmt.Errorf("list %s: %w", path, err)
			}
			return failed
		}
		removed := false
		for _, name := range names {
			if err := removeAt(fd, name, filepath.Join(path, name)); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			removed = true
		}
		if failed != nil && !removed {
			return failed
		}
		if failed == nil {
			if _, err := dir.Seek(0, 0); err != nil { // what was removed has moved the rest
				return fmt.Errorf("list %s: %w", path, err)
			}
		}
	}
}
