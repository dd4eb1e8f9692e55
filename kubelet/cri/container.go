package cri

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet"
)

// Reasons of kubelet.ContainerError, upstream's (pkg/kubelet/kuberuntime/kuberuntime_container.go).
const (
	reasonConfig = "CreateContainerConfigError"
	reasonCreate = "CreateContainerError"
	reasonRun    = "RunContainerError"
)

// CreateContainer implements kubelet.Runtime. options.Sandbox has to say what RunSandbox was told when another process
// made the sandbox.
func (r *Runtime) CreateContainer(ctx context.Context, pod *corev1.Pod, c *corev1.Container, options kubelet.ContainerOptions) (id string, err error) {
	prefix, err := r.prefix(ctx)
	if err != nil {
		return "", err
	}
	if _, _, err := r.Pod(ctx, pod.UID); err != nil {
		return "", err
	}
	in := r.cache.sandbox(pod.UID)
	if in == nil || !in.live {
		return "", &kubelet.ContainerError{Reason: reasonCreate, Message: "the pod has no sandbox"}
	}
	around := options.Sandbox
	if in.options != nil {
		around = *in.options
	}
	sandboxConfig, err := r.sandboxConfig(pod, around, in.attempt)
	if err != nil {
		return "", &kubelet.ContainerError{Reason: reasonConfig, Message: err.Error()}
	}
	config, err := r.containerConfig(ctx, pod, c, options, around)
	if err != nil {
		return "", &kubelet.ContainerError{Reason: reasonConfig, Message: err.Error()}
	}
	if err := os.MkdirAll(filepath.Join(sandboxConfig.LogDirectory, c.Name), 0o755); err != nil {
		return "", &kubelet.ContainerError{Reason: reasonCreate, Message: fmt.Sprintf("create the log directory of container %s: %v", c.Name, err)}
	}
	answer, err := r.client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: in.bare, Config: config, SandboxConfig: sandboxConfig})
	if err != nil {
		r.cache.doubt(pod.UID)
		return "", failure(reasonCreate, err)
	}
	if _, err := r.askContainer(ctx, prefix, in.bare, answer.ContainerId); err != nil {
		r.cache.doubt(pod.UID)
	}
	return prefix + answer.ContainerId, nil
}

// failure is a request that the runtime has refused, without the decoration of gRPC.
func failure(reason string, err error) error {
	if code := status.Code(err); code == codes.Unavailable || code == codes.Canceled {
		return err // the runtime has said nothing
	}
	return &kubelet.ContainerError{Reason: reason, Message: status.Convert(err).Message()}
}

// StartContainer implements kubelet.Runtime.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	_, err := r.client.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: bare(id)})
	r.look(ctx, bare(id))
	if err != nil {
		return failure(reasonRun, err)
	}
	if err := r.linkLog(bare(id)); err != nil {
		r.logger.Warn("the kubelet cannot link a container's log in /var/log/containers; what collects logs there does not find it", "container", id, "error", err)
	}
	return nil
}

// look asks for a container after something has been done to it. Where that fails the whole pod is asked for next time.
func (r *Runtime) look(ctx context.Context, id string) {
	known, uid := r.cache.container(id)
	if known == nil {
		return // and so is its pod, or there are doubts already
	}
	prefix, err := r.prefix(ctx)
	if err == nil {
		_, err = r.askContainer(ctx, prefix, known.sandbox, id)
	}
	if err != nil {
		r.cache.doubt(uid)
	}
}

// StopContainer implements kubelet.Runtime. Grace is given in whole seconds, rounded up.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	seconds := int64(math.Ceil(max(0, grace.Seconds())))
	_, err := r.client.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: bare(id), Timeout: seconds})
	if status.Code(err) == codes.NotFound {
		err = nil
	}
	if err != nil {
		if _, uid := r.cache.container(bare(id)); uid != "" {
			r.cache.doubt(uid)
		}
		return fmt.Errorf("stop container %s: %w", id, err)
	}
	r.look(ctx, bare(id))
	return nil
}

// ResizeContainer implements kubelet.Runtime.
func (r *Runtime) ResizeContainer(ctx context.Context, pod *corev1.Pod, c *corev1.Container, id string) error {
	_, err := r.client.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: bare(id), Linux: r.containerResources(pod, c)})
	r.look(ctx, bare(id))
	if err != nil {
		return fmt.Errorf("resize container %s: %w", c.Name, err)
	}
	return nil
}

// containerConfig is upstream's generateContainerConfig.
func (r *Runtime) containerConfig(ctx context.Context, pod *corev1.Pod, c *corev1.Container, options kubelet.ContainerOptions, around kubelet.SandboxOptions) (*runtimeapi.ContainerConfig, error) {
	user, err := r.images.user(ctx, options.ImageID)
	if err != nil {
		return nil, err
	}
	if err := verifyNonRoot(pod, c, user); err != nil {
		return nil, err
	}
	security, err := r.containerSecurity(pod, c, user, options, around)
	if err != nil {
		return nil, err
	}
	config := &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(options.Attempt)},
		Image:       &runtimeapi.ImageSpec{Image: options.ImageID, UserSpecifiedImage: c.Image, RuntimeHandler: around.Handler},
		Command:     options.Command,
		Args:        options.Args,
		WorkingDir:  c.WorkingDir,
		Labels:      containerLabels(pod, c),
		Annotations: containerAnnotations(pod, c, options),
		LogPath:     filepath.Join(c.Name, strconv.Itoa(int(options.Attempt))+".log"),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  stopSignal(c),
		Linux:       &runtimeapi.LinuxContainerConfig{Resources: r.containerResources(pod, c), SecurityContext: security},
	}
	for _, e := range options.Env {
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: e.Name, Value: []byte(e.Value)})
	}
	for _, d := range options.Devices {
		config.Devices = append(config.Devices, &runtimeapi.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: d.Permissions})
	}
	for _, name := range options.CDIDevices {
		config.CDIDevices = append(config.CDIDevices, &runtimeapi.CDIDevice{Name: name})
	}
	for _, m := range options.Mounts {
		config.Mounts = append(config.Mounts, toMount(pod, m))
	}
	if ids := security.NamespaceOptions.UsernsOptions; ids != nil {
		for _, m := range config.Mounts { // files belong to the users that the container knows
			m.UidMappings, m.GidMappings = ids.Uids, ids.Gids
		}
	}
	return config, nil
}

func toMount(pod *corev1.Pod, m kubelet.Mount) *runtimeapi.Mount {
	mount := &runtimeapi.Mount{
		HostPath: m.HostPath, ContainerPath: m.ContainerPath, Readonly: m.ReadOnly, RecursiveReadOnly: m.RecursiveReadOnly,
		SelinuxRelabel: m.SELinuxRelabel && selinux(pod), ImageSubPath: m.ImageSubPath,
	}
	switch m.Propagation {
	case corev1.MountPropagationHostToContainer:
		mount.Propagation = runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case corev1.MountPropagationBidirectional:
		mount.Propagation = runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	}
	if m.Image != "" {
		mount.HostPath, mount.Image = "", &runtimeapi.ImageSpec{Image: m.Image}
	}
	return mount
}

// selinux says whether files of the pod carry a label.
func selinux(pod *corev1.Pod) bool {
	return pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.SELinuxOptions != nil
}

// stopSignal is what the container is asked to end with (KEP-4960).
func stopSignal(c *corev1.Container) runtimeapi.Signal {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT
	}
	return runtimeapi.Signal(runtimeapi.Signal_value["SIGNAL_"+string(*c.Lifecycle.StopSignal)])
}

// RemoveContainer implements kubelet.Runtime.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	_, uid := r.cache.container(bare(id))
	if _, err := r.client.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: bare(id)}); err != nil {
		if uid != "" {
			r.cache.doubt(uid)
		}
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	r.cache.remove(bare(id))
	return nil
}

// removeLogs removes the logs of a container, with those that were rotated.
func removeLogs(c *kubelet.Container) error {
	if c.LogPath == "" {
		return nil
	}
	logs, err := filepath.Glob(c.LogPath + "*")
	if err != nil {
		return fmt.Errorf("find the logs of container %s: %w", c.ID, err)
	}
	for _, file := range logs {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}
