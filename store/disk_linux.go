package store

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// spareInodes is how many files a file system must be able to take before its free bytes count: etcd makes one for each snapshot.
const spareInodes = 4

// freeBytes returns how much anybody may still write to the file system of dir; 0 when it takes no more files.
func freeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if s.Files > 0 && s.Ffree < spareInodes {
		return 0, nil
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// allocate gives the first size bytes of the file blocks of their own. keepSize leaves the file's length as it is. It fails with
// [errors.ErrUnsupported] where the file system has no such thing.
func allocate(f *os.File, size int64, keepSize bool) error {
	if keepSize {
		return fallocate(f, 1, 0, size) // FALLOC_FL_KEEP_SIZE
	}
	return fallocate(f, 0, 0, size)
}

// release gives blocks of a file back to the file system, and leaves its length. It fails as allocate does.
func release(f *os.File, from, size int64) error {
	return fallocate(f, 1|2, from, size) // FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE
}

func fallocate(f *os.File, mode uint32, from, size int64) error {
	for {
		switch err := syscall.Fallocate(int(f.Fd()), mode, from, size); {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EOPNOTSUPP):
			return errors.ErrUnsupported
		default:
			return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
	}
}

// blocksOf returns how many bytes of blocks a file has, and which file it is.
func blocksOf(path string) (bytes int64, inode uint64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	s := info.Sys().(*syscall.Stat_t)
	return s.Blocks * 512, s.Ino, nil
}

// populate has a file that is mapped read at once, in its order; bbolt would have each page read alone.
const populate = syscall.MAP_POPULATE
