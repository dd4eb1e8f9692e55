package mount

import (
	"context"
	"os"
	"path/filepath"

	"vigil/kubelet/untrusted"
)

// RemoveAll removes path with all that is in it, but nothing that is mounted: it fails with untrusted.ErrMounted before it removes anything when
// the table of mounts has something at path or below. For the rest it is untrusted.Remove, which stops at mounts that come up meanwhile.
func RemoveAll(ctx context.Context, path string) error {
	path = filepath.Clean(path)
	below, err := Below(path)
	if err != nil {
		return err
	}
	if len(below) > 0 {
		return &os.PathError{Op: "remove", Path: below[0].Path, Err: untrusted.ErrMounted}
	}
	return untrusted.Remove(ctx, path)
}
