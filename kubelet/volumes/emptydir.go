package volumes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"vigil/kinds/validate"
	"vigil/kubelet/volumes/mount"
)

// emptyDir makes volumes that live as long as their pod: directories, tmpfs, or huge pages.
type emptyDir struct {
	allocatable func() corev1.ResourceList // nil: not known
	swaps       atomic.Bool                // the kernel knows no tmpfs that is never swapped (before Linux 6.4)
}

func (*emptyDir) Name() string { return "kubernetes.io/empty-dir" }

func (*emptyDir) Supports(v *Volume) bool { return v.PV == nil && v.Spec.EmptyDir != nil }

func (e *emptyDir) SetUp(ctx context.Context, v *Volume) (Mounted, error) {
	mounted := Mounted{Own: true}
	source := v.Spec.EmptyDir
	var err error
	switch medium := source.Medium; {
	case medium == corev1.StorageMediumDefault:
		err = makeDir(v.Dir, 0o777)
	case medium == corev1.StorageMediumMemory:
		err = e.tmpfs(v.Dir, e.size(v.Pod, source.SizeLimit))
	case medium == corev1.StorageMediumHugePages, strings.HasPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix)):
		err = hugePages(v)
	default:
		err = fmt.Errorf("unknown storage medium %q", medium)
	}
	if err == nil {
		err = SetOwnership(ctx, v, v.Dir, false)
	}
	return mounted, err
}

func (*emptyDir) TearDown(ctx context.Context, p Place) error {
	return RemoveVolume(ctx, p.Dir)
}

// size is how large a volume in memory may grow: as its limit, the pod's memory limit and the node's memory say; nil: there is no
// bound but the kernel's, half of the memory.
func (e *emptyDir) size(pod *corev1.Pod, limit *resource.Quantity) *resource.Quantity {
	smallest := memory(e.allocatable)
	take := func(q *resource.Quantity) {
		if q != nil && q.Sign() > 0 && (smallest == nil || q.Cmp(*smallest) < 0) {
			smallest = q
		}
	}
	if bounded(pod) {
		limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
		take(limits.Memory())
	}
	take(limit)
	return smallest
}

// bounded says that the pod has a memory limit: its own, or one of each container.
func bounded(pod *corev1.Pod) bool {
	if pod.Spec.Resources != nil && !pod.Spec.Resources.Limits.Memory().IsZero() {
		return true
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Resources.Limits.Memory().IsZero() {
			return false
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Resources.Limits.Memory().IsZero() {
			return false
		}
	}
	return true
}

// makeDir makes a directory with a mode, or gives it to one that is there.
func makeDir(dir string, mode os.FileMode) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&mode == mode {
		return nil
	}
	return os.Chmod(dir, mode)
}

// tmpfs mounts one at dir, unless something is mounted there. It never goes to swap space if the kernel can see to that.
func (e *emptyDir) tmpfs(dir string, size *resource.Quantity) error {
	options := []string{"mode=777"}
	if size != nil {
		options = append(options, "size="+strconv.FormatInt(size.Value(), 10))
	}
	if e.swaps.Load() {
		return mountOnce(dir, "tmpfs", options...)
	}
	err := mountOnce(dir, "tmpfs", append(options, "noswap")...)
	if !errors.Is(err, syscall.EINVAL) {
		return err
	}
	if err = mountOnce(dir, "tmpfs", options...); err == nil {
		e.swaps.Store(true)
	}
	return err
}

// mountOnce mounts a file system at dir, unless something is mounted there.
func mountOnce(dir, fstype string, options ...string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	there, err := mount.IsMount(dir)
	if err != nil || there {
		return err
	}
	return mount.Mount(fstype, dir, fstype, options...)
}

// hugePages mounts a file system of huge pages of the size that the volume, or else the pod's only size of them, says.
func hugePages(v *Volume) error {
	size, err := pageSize(v)
	if err != nil {
		return err
	}
	if err := mountOnce(v.Dir, "hugetlbfs", "pagesize="+size); err != nil {
		return err
	}
	return os.Chmod(v.Dir, 0o777)
}

// pageSize is a page size as mount options have it: "2M".
func pageSize(v *Volume) (string, error) {
	if size, ok := strings.CutPrefix(string(v.Spec.EmptyDir.Medium), string(corev1.StorageMediumHugePagesPrefix)); ok {
		return pagesOption(size)
	}
	sizes := map[string]bool{}
	for _, containers := range [][]corev1.Container{v.Pod.Spec.Containers, v.Pod.Spec.InitContainers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix); ok {
					sizes[size] = true
				}
			}
		}
	}
	switch len(sizes) {
	case 0:
		return "", fmt.Errorf("hugePages storage requested, but there is no resource request for huge pages")
	case 1:
		for size := range sizes {
			return pagesOption(size)
		}
	}
	return "", fmt.Errorf("medium %q can't be used if container(s) request multiple huge page sizes", v.Spec.EmptyDir.Medium)
}

func pagesOption(size string) (string, error) {
	q, err := validate.ParseQuantity(size)
	if err != nil {
		return "", fmt.Errorf("size of huge pages %q: %w", size, err)
	}
	return strconv.FormatInt(q.Value(), 10), nil
}
