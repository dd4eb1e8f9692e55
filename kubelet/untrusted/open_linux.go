package untrusted

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxTries bounds the times that a lookup is repeated because a container renames directories meanwhile.
const maxTries = 100

// OpenIn opens a regular file below dir to read. Links in path are followed as long as they stay below dir, absolute ones never; links in dir
// itself are the caller's. It fails with ErrNotRegular for what else there is, and with EXDEV for a path that leads out of dir.
func OpenIn(dir, path string) (*os.File, error) {
	name := filepath.Join(dir, path)
	in, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(in)
	handle, err := openat2(in, path, unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return regular(handle, name, os.O_RDONLY)
}

// open opens a regular file, which O_CREATE makes where nothing is.
func open(path string, flags int, perm os.FileMode) (*os.File, error) {
	for try := 0; ; try++ {
		handle, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			return regular(handle, path, flags&^os.O_CREATE)
		}
		if !errors.Is(err, unix.ENOENT) || flags&os.O_CREATE == 0 || try == maxTries {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		file, err := os.OpenFile(path, flags|os.O_EXCL, perm)
		if !errors.Is(err, os.ErrExist) {
			return file, err
		}
	}
}

// regular opens what an O_PATH handle stands for, if that is a regular file, and closes the handle. Nothing else is opened: to open a device, which
// containers may make in their volumes, is to use it (a watchdog restarts the machine), and to open a FIFO is to wait for a writer.
func regular(handle int, path string, flags int) (*os.File, error) {
	defer unix.Close(handle)
	var st unix.Stat_t
	err := unix.Fstat(handle, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	fd := -1
	if err == nil { // a handle cannot be read, but it can be opened
		err = retry(func() error {
			fd, err = unix.Open("/proc/self/fd/"+strconv.Itoa(handle), flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
			return err
		})
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openat2 opens a path below an open directory as how says.
func openat2(in int, path string, how unix.OpenHow) (fd int, err error) {
	how.Flags |= unix.O_CLOEXEC
	for try := 0; ; try++ {
		fd, err = unix.Openat2(in, path, &how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) && try < maxTries {
			continue
		}
		return fd, err
	}
}

// retry calls until it is not interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
