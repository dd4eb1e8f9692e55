package volumes

import (
	"context"
	"fmt"
	"os"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/volumes/mount"
)

// What a pod's group may do with the files of its volumes (pkg/volume/volume_linux.go).
const (
	writable  = os.FileMode(0o660)
	readable  = os.FileMode(0o440)
	enterable = os.FileMode(0o110)
)

// SetOwnership gives the files of a volume to the pod's fsGroup: the group is changed, may read and (unless readOnly) write them, and
// owns what will be made in directories (setgid). Without an fsGroup it does nothing. With fsGroupChangePolicy OnRootMismatch it does
// nothing either when dir is already as it should be. Symlinks are changed themselves, never what they lead to.
//
// A volume with many files takes a while; ctx ends it.
func SetOwnership(ctx context.Context, v *Volume, dir string, readOnly bool) error {
	group := v.FSGroup()
	if group == nil {
		return nil
	}
	if policy := v.FSGroupChangePolicy(); policy != nil && *policy == corev1.FSGroupChangeOnRootMismatch && matches(dir, int(*group), readOnly) {
		return nil
	}
	file := writable
	if readOnly {
		file = readable
	}
	if err := mount.SetGroup(ctx, dir, int(*group), file, file|enterable|os.ModeSetgid); err != nil {
		return fmt.Errorf("applyFSGroup failed for vol %s: %w", v.specName(), err)
	}
	return nil
}

// matches says that a directory is already the group's.
func matches(dir string, group int, readOnly bool) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	mask := writable | enterable | os.ModeSetgid
	if readOnly {
		mask = readable | enterable | os.ModeSetgid
	}
	return int(info.Sys().(*syscall.Stat_t).Gid) == group && info.Mode()&mask == mask
}
