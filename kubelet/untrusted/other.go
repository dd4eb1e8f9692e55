//go:build !linux

package untrusted

import (
	"context"
	"errors"
	"os"
)

// MaxDepth is how deep directories may be nested.
const MaxDepth = 1 << 15

// OpenIn is as on Linux, but what it opens may hold it up.
func OpenIn(dir, path string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	return root.Open(path)
}

// open looks before it opens; nodes elsewhere than on Linux run no containers that could use the moment between.
func open(path string, flags int, perm os.FileMode) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	return os.OpenFile(path, flags, perm)
}

// Entry is as on Linux.
type Entry struct {
	Dir  int
	Name string
}

// Usage is as on Linux.
type Usage struct{ Bytes, Inodes uint64 }

// Walk fails; see the package's doc.
func Walk(ctx context.Context, dir string, visit func(Entry) (enter bool, err error)) error {
	return errors.ErrUnsupported
}

// Measure fails; see the package's doc.
func Measure(ctx context.Context, dir string) (Usage, error) { return Usage{}, errors.ErrUnsupported }

// Remove removes path with what is in it.
func Remove(_ context.Context, path string) error { return os.RemoveAll(path) }
