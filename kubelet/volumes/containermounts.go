package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet"
	"vigil/kubelet/volumes/mount"
)

// Mounts are the bind mounts for a container's volumeMounts, whose subPathExprs the caller has put into their subPaths. The volumes are
// there: Mount has succeeded for the pod. It fails with a *kubelet.ContainerError. done is nil.
func (m *Manager) Mounts(ctx context.Context, pod *corev1.Pod, container *corev1.Container) (mounts []kubelet.Mount, done func(), err error) {
	p := m.pod(pod.UID)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range container.VolumeMounts {
		one, err := m.containerMount(ctx, p, pod, container, i)
		if err != nil {
			return nil, nil, &kubelet.ContainerError{Reason: "CreateContainerConfigError", Message: err.Error()}
		}
		mounts = append(mounts, one)
	}
	return mounts, nil, nil
}

// containerMount is what the i-th volumeMount of a container becomes.
func (m *Manager) containerMount(ctx context.Context, p *podVolumes, pod *corev1.Pod, container *corev1.Container, i int) (kubelet.Mount, error) {
	of := &container.VolumeMounts[i]
	have := p.volumes[of.Name]
	if have == nil {
		return kubelet.Mount{}, fmt.Errorf("cannot find volume %q to mount into container %q", of.Name, container.Name)
	}
	result := kubelet.Mount{ContainerPath: of.MountPath, ReadOnly: of.ReadOnly || have.volume.ReadOnly || have.mounted.ReadOnly}
	if !filepath.IsAbs(result.ContainerPath) {
		result.ContainerPath = filepath.Join("/", result.ContainerPath)
	}
	if of.MountPropagation != nil {
		result.Propagation = *of.MountPropagation
	}
	var err error
	if result.RecursiveReadOnly, err = m.recursive(ctx, pod, of, have); err != nil {
		return kubelet.Mount{}, fmt.Errorf("failed to resolve recursive read-only mode: %w", err)
	}
	if err := checkSubPath(of.SubPath); err != nil {
		return kubelet.Mount{}, err
	}
	if source := have.volume.Spec.Image; source != nil && have.volume.PV == nil {
		return m.imageMount(ctx, pod, source, of.SubPath, result)
	}
	result.HostPath = have.mounted.Path
	if result.HostPath == "" {
		result.HostPath = have.volume.Dir
	}
	if of.SubPath != "" {
		if result.HostPath, err = m.mountSubPath(ctx, pod, container, i, result.HostPath, have); err != nil {
			return kubelet.Mount{}, err
		}
	}
	return result, ensureHostPath(have, result.HostPath)
}

// ensureHostPath makes the directory of a hostPath that has no type and is not there, as runtimes do for missing sources of bind mounts.
func ensureHostPath(have *made, path string) error {
	if _, ok := have.plugin.(hostPath); !ok {
		return nil
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // what else is wrong the runtime says better
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make hostPath %s: %w", path, err)
	}
	return nil
}

// recursive says whether what is mounted below a read-only mount is to be read-only too (KEP-3857).
func (m *Manager) recursive(ctx context.Context, pod *corev1.Pod, of *corev1.VolumeMount, have *made) (bool, error) {
	if of.RecursiveReadOnly == nil || *of.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	if have.volume.Spec.Image != nil {
		return false, nil // images are read-only all through
	}
	if !of.ReadOnly {
		if *of.RecursiveReadOnly == corev1.RecursiveReadOnlyIfPossible {
			return false, nil
		}
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", of.Name)
	}
	if of.MountPropagation != nil && *of.MountPropagation != corev1.MountPropagationNone {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %v", of.Name, *of.MountPropagation)
	}
	can := false
	if m.config.RecursiveReadOnly != nil {
		var err error
		if can, err = m.config.RecursiveReadOnly(ctx, pod); err != nil {
			return false, err
		}
	}
	if !can && *of.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", of.Name)
	}
	return can, nil
}

// imageMount mounts the files of an image.
func (m *Manager) imageMount(ctx context.Context, pod *corev1.Pod, source *corev1.ImageVolumeSource, subPath string, result kubelet.Mount) (kubelet.Mount, error) {
	if m.config.Image == nil {
		return kubelet.Mount{}, errors.New("image volumes are not supported on this node")
	}
	id, err := m.config.Image(ctx, pod, source.Reference, source.PullPolicy)
	if err != nil {
		return kubelet.Mount{}, err
	}
	result.Image, result.ImageSubPath, result.ReadOnly, result.HostPath = id, subPath, true, ""
	return result, nil
}

// checkSubPath fails for paths that cannot be inside of a volume.
func checkSubPath(path string) error {
	if filepath.IsAbs(path) {
		return fmt.Errorf("error SubPath `%s` must not be an absolute path", path)
	}
	for element := range strings.SplitSeq(path, "/") {
		if element == ".." {
			return fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", path)
		}
	}
	return nil
}

// mountSubPath makes the place where a container finds a part of a volume: what the kernel found below the volume, which symlinks cannot
// have led out of it, is mounted at pods/UID/volume-subpaths/VOLUME/CONTAINER/N.
func (m *Manager) mountSubPath(ctx context.Context, pod *corev1.Pod, container *corev1.Container, i int, base string, have *made) (string, error) {
	of := &container.VolumeMounts[i]
	target := filepath.Join(m.podDir(pod.UID), "volume-subpaths", have.volume.specName(), container.Name, strconv.Itoa(i))
	if err := ensureHostPath(have, base); err != nil {
		return "", err
	}
	found, err := mount.OpenBeneath(base, of.SubPath)
	if errors.Is(err, fs.ErrNotExist) {
		if err := mount.MakeDirBeneath(base, of.SubPath); err != nil {
			m.config.Logger.Warn("the kubelet could not make the subPath of a volume; the container waits", "pod", pod.Name, "namespace", pod.Namespace, "volume", of.Name, "error", err)
			return "", fmt.Errorf("failed to create subPath directory for volumeMount %q of container %q", of.Name, container.Name)
		}
		found, err = mount.OpenBeneath(base, of.SubPath)
	}
	if err == nil {
		defer found.Close()
		err = bindSubPath(ctx, found, target)
	}
	if err != nil {
		m.config.Logger.Warn("the kubelet could not mount the subPath of a volume; the container waits", "pod", pod.Name, "namespace", pod.Namespace, "volume", of.Name, "error", err)
		return "", fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q", of.Name, container.Name)
	}
	return target, nil
}

// bindSubPath mounts an open file at target, in place of what an earlier attempt of the container had there.
func bindSubPath(ctx context.Context, found *os.File, target string) error {
	info, err := found.Stat()
	if err != nil {
		return err
	}
	if err := RemoveVolume(ctx, target); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	if info.IsDir() {
		err = os.Mkdir(target, 0o750)
	} else {
		err = os.WriteFile(target, nil, 0o640)
	}
	if err != nil {
		return err
	}
	return mount.BindFile(found, target)
}

// Devices are the block volumes for a container's volumeDevices.
func (m *Manager) Devices(_ context.Context, pod *corev1.Pod, container *corev1.Container) ([]kubelet.Device, error) {
	p := m.pod(pod.UID)
	p.mu.Lock()
	defer p.mu.Unlock()
	var devices []kubelet.Device
	for _, of := range container.VolumeDevices {
		have := p.volumes[of.Name]
		if have == nil || have.mounted.Device == "" {
			return nil, &kubelet.ContainerError{
				Reason:  "CreateContainerConfigError",
				Message: fmt.Sprintf("cannot find volume %q to pass into container %q", of.Name, container.Name),
			}
		}
		permissions := "mrw"
		if have.volume.ReadOnly {
			permissions = "r"
		}
		path, err := filepath.EvalSymlinks(have.mounted.Device)
		if err != nil {
			return nil, &kubelet.ContainerError{Reason: "CreateContainerConfigError", Message: err.Error()}
		}
		devices = append(devices, kubelet.Device{HostPath: path, ContainerPath: of.DevicePath, Permissions: permissions})
	}
	return devices, nil
}
