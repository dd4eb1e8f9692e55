//go:build !linux

package mount

import (
	"context"
	"errors"
	"os"
)

// ErrEscapes says that a path leads out of the directory that it must stay in.
var ErrEscapes = errors.New("path leads out of the volume")

// Point is a mount.
type Point struct {
	Path, Root, Device, Type, Source string
	Shared                           bool
}

// Points are mounts.
type Points []Point

// Below fails; see the package's doc.
func Below(dir string) (Points, error) { return nil, errors.ErrUnsupported }

// Mount fails; see the package's doc.
func Mount(source, target, fstype string, options ...string) error { return errors.ErrUnsupported }

// Bind fails; see the package's doc.
func Bind(source, target string, readOnly bool) error { return errors.ErrUnsupported }

// Unmount fails; see the package's doc.
func Unmount(target string) error { return errors.ErrUnsupported }

// IsMount fails; see the package's doc.
func IsMount(path string) (bool, error) { return false, errors.ErrUnsupported }

// Shared fails; see the package's doc.
func Shared(dir string) error { return errors.ErrUnsupported }

// RemoveAll fails; see the package's doc.
func RemoveAll(ctx context.Context, path string) error { return errors.ErrUnsupported }

// OpenBeneath fails; see the package's doc.
func OpenBeneath(base, sub string) (*os.File, error) { return nil, errors.ErrUnsupported }

// MakeDirBeneath fails; see the package's doc.
func MakeDirBeneath(base, sub string) error { return errors.ErrUnsupported }

// BindFile fails; see the package's doc.
func BindFile(f *os.File, target string) error { return errors.ErrUnsupported }

// SetGroup fails; see the package's doc.
func SetGroup(ctx context.Context, dir string, group int, file, directory os.FileMode) error {
	return errors.ErrUnsupported
}

// Busy is never the reason.
func Busy(error) bool { return false }
