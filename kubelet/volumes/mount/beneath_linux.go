package mount

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrEscapes says that a path leads out of the directory that it must stay in.
var ErrEscapes = errors.New("path leads out of the volume")

// maxTries bounds the times that a lookup is repeated because somebody renames directories meanwhile.
const maxTries = 100

// OpenBeneath opens what sub names below base, as a handle that can be mounted but not read (O_PATH). Symlinks in sub are followed as
// long as they do not lead out of base, absolute ones never; then it fails with ErrEscapes. Symlinks in base itself are followed.
func OpenBeneath(base, sub string) (*os.File, error) {
	root, err := openBase(base)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	path := filepath.Join(base, sub)
	fd, err := lookup(root, sub, unix.O_PATH)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// MakeDirBeneath makes the directories that sub names below base and that are not there, with base's permissions, owner of files
// made by this process, and base's group where that is inherited (setgid). The rules for symlinks are OpenBeneath's.
func MakeDirBeneath(base, sub string) error {
	root, err := openBase(base)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	var st unix.Stat_t
	if err := unix.Fstat(root, &st); err != nil {
		return &os.PathError{Op: "stat", Path: base, Err: err}
	}
	mode := st.Mode & (0o777 | unix.S_ISGID)
	walked := ""
	for part := range strings.SplitSeq(sub, "/") {
		if part == "" || part == "." {
			continue
		}
		parent := walked
		walked = filepath.Join(walked, part)
		if part == ".." { // Join would undo a symlink before it
			return &os.PathError{Op: "make", Path: filepath.Join(base, sub), Err: ErrEscapes}
		}
		if err := makeOne(root, parent, part, mode); err != nil {
			return &os.PathError{Op: "make", Path: filepath.Join(base, walked), Err: err}
		}
	}
	return nil
}

// makeOne makes a directory in parent, a path below root, when nothing has its name.
func makeOne(root int, parent, name string, mode uint32) error {
	in, err := lookup(root, parent, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(in)
	err = unix.Mkdirat(in, name, mode&0o777)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	// The umask has taken its part, and mkdir ignores setgid. Nobody but root could have put something else there, and not a symlink
	// that is followed.
	dir, err := unix.Openat(in, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Fchmod(dir, mode)
}

// BindFile makes what an open file is visible at target, without what is mounted below it. target exists and is a directory if the
// file is one.
func BindFile(f *os.File, target string) error {
	tree, err := unix.OpenTree(int(f.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return &os.PathError{Op: "clone the mount of", Path: f.Name(), Err: err}
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "bind " + f.Name(), Path: target, Err: err}
	}
	return nil
}

func openBase(base string) (int, error) {
	fd, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: base, Err: err}
	}
	return fd, nil
}

// lookup opens a path below root. It is the kernel that keeps it from leaving.
func lookup(root int, path string, flags uint64) (int, error) {
	if path == "" {
		path = "."
	}
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(root, path, &how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN) && try < maxTries:
			continue
		case errors.Is(err, unix.EXDEV):
			return -1, ErrEscapes
		}
		return fd, err
	}
}
