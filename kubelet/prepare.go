package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/untrusted"
)

// prepared is what a pod's worker has made ready for the pod's containers.
type prepared struct {
	cgroup     string          // parent of the containers' cgroups
	hasCgroup  bool            // cgroup has been made, or taken over, by this worker
	sandbox    *SandboxOptions // nil until they are wanted
	ported     string          // ID of the sandbox whose host ports are open
	mountAfter time.Time       // not before is mounting tried again
	usable     bool            // what there is of volumes is enough meanwhile

	toldDevices bool // an event says that the pod waits for devices
}

// podDir is where a pod's files are; "" on nodes without any.
func (k *Kubelet) podDir(uid types.UID) string {
	if k.config.RootDir == "" {
		return ""
	}
	return filepath.Join(k.config.RootDir, "pods", string(uid))
}

// prepare brings what the pod's containers need beside a sandbox to where it should be: cgroup, directories, volumes. wait, when
// not 0, says that this is not done yet and when to try again.
func (w *worker) prepare(ctx context.Context, pod *corev1.Pod) (wait time.Duration, err error) {
	k := w.kubelet
	if why := waitsForDevices(pod); why != "" {
		if !w.prepared.toldDevices {
			k.recorder.Eventf(pod, corev1.EventTypeWarning, "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: %s", why)
		}
		w.prepared.toldDevices = true
		return resyncPeriod, nil
	}
	if cgroups := k.config.Parts.Cgroups; cgroups != nil && !w.prepared.hasCgroup {
		if w.prepared.cgroup, err = cgroups.Ensure(pod); err != nil {
			k.recorder.Eventf(pod, corev1.EventTypeWarning, "FailedCreatePodContainer", "unable to ensure pod container exists: %v", err)
			return 0, fmt.Errorf("ensure that the pod's cgroup exists: %w", err)
		}
		w.prepared.hasCgroup = true
	}
	if dir := k.podDir(w.uid); dir != "" {
		if err := makePodDirs(dir); err != nil {
			k.recorder.Eventf(pod, corev1.EventTypeWarning, "FailedToMakePodDataDirectories", "error making pod data directories: %v", err)
			return 0, fmt.Errorf("make pod directories: %w", err)
		}
	}
	volumes := k.config.Parts.Volumes
	if volumes == nil {
		return 0, nil
	}
	if left := time.Until(w.prepared.mountAfter); left > 0 && !w.remount.Swap(false) {
		if w.prepared.usable {
			return 0, nil
		}
		return left, nil
	}
	w.prepared.mountAfter, w.prepared.usable = time.Time{}, false
	err = volumes.Mount(ctx, pod)
	if err == nil || ctx.Err() != nil {
		return 0, ctx.Err()
	}
	messages, again := []string{err.Error()}, firstRetryDelay
	if known := (*VolumeError)(nil); errors.As(err, &known) {
		messages, again = known.Messages, max(known.Again, time.Millisecond)
		w.prepared.usable = known.Usable
		if known.Told {
			messages = nil
		}
	}
	for _, message := range messages {
		k.recorder.Event(pod, corev1.EventTypeWarning, "FailedMount", message)
	}
	w.warn(ctx, "the kubelet could not mount the volumes of a pod; it tries again", pod, err)
	w.prepared.mountAfter = time.Now().Add(again)
	if w.prepared.usable {
		return 0, nil // the pod runs on with what it has
	}
	return again, nil
}

// waitsForDevices says why a pod that names resource claims does not start; "" for others. Nothing prepares devices on this node yet, and
// a container must not run without its own.
func waitsForDevices(pod *corev1.Pod) string {
	if len(pod.Spec.ResourceClaims) == 0 {
		return ""
	}
	names := make([]string, 0, len(pod.Spec.ResourceClaims))
	for i := range pod.Spec.ResourceClaims {
		names = append(names, pod.Spec.ResourceClaims[i].Name)
	}
	return fmt.Sprintf("devices of resource claims cannot be prepared yet, and the pod names some (%s)", strings.Join(names, ", "))
}

// makePodDirs makes the directory of a pod with upstream's modes (kubelet_pods.go makePodDataDirs).
func makePodDirs(dir string) error {
	for _, path := range []string{dir, filepath.Join(dir, "volumes"), filepath.Join(dir, "plugins")} {
		if err := os.MkdirAll(path, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// release takes away what prepare has made, when no container of the pod runs any more.
func (w *worker) release(ctx context.Context, pod *corev1.Pod) error {
	if w.released {
		return nil
	}
	parts := w.kubelet.config.Parts
	if parts.Volumes != nil {
		if err := parts.Volumes.Unmount(ctx, w.uid); err != nil {
			return fmt.Errorf("unmount volumes: %w", err)
		}
	}
	if parts.HostPorts != nil {
		if err := parts.HostPorts.Remove(ctx, w.uid); err != nil {
			return fmt.Errorf("close host ports: %w", err)
		}
	}
	if parts.Cgroups != nil {
		if err := parts.Cgroups.Remove(w.uid); err != nil {
			return fmt.Errorf("remove the pod's cgroup: %w", err)
		}
	}
	if parts.Objects != nil {
		parts.Objects.Unregister(w.uid)
	}
	if dir := w.kubelet.podDir(w.uid); dir != "" && parts.Volumes == nil {
		if err := untrusted.Remove(ctx, dir); err != nil {
			return fmt.Errorf("remove the pod's directory: %w", err)
		}
	}
	w.kubelet.users.release(w.uid)
	w.prepared, w.released = prepared{}, true
	return nil
}

// pullSecrets finds the secrets that a pod's images are pulled with, and says in an event which are not to be had.
func (w *worker) pullSecrets(ctx context.Context, pod *corev1.Pod) (secrets []*corev1.Secret) {
	objects := w.kubelet.config.Parts.Objects
	if objects == nil {
		return nil
	}
	var missing []string
	for _, reference := range pod.Spec.ImagePullSecrets {
		if reference.Name == "" {
			continue
		}
		secret, err := objects.Secret(ctx, pod.Namespace, reference.Name)
		if err != nil {
			missing = append(missing, reference.Name)
			continue
		}
		secrets = append(secrets, secret)
	}
	if len(missing) > 0 {
		w.kubelet.recorder.Eventf(pod, corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
			"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(missing, ", "))
	}
	return secrets
}

// sandboxOptions is what the pod's sandbox needs beside its spec.
func (w *worker) sandboxOptions(ctx context.Context, pod *corev1.Pod) (*SandboxOptions, error) {
	if made := w.prepared.sandbox; made != nil {
		return made, nil
	}
	parts := &w.kubelet.config.Parts
	options, err := SandboxOptions{CgroupParent: w.prepared.cgroup, Hostname: pod.Name}, error(nil)
	if options.Handler, err = w.runtimeHandler(ctx, pod); err != nil {
		return nil, err
	}
	if options.UserNamespace, err = w.kubelet.users.of(pod); err != nil {
		return nil, err
	}
	if parts.Files != nil {
		if options.Hostname, err = parts.Files.Hostname(pod); err != nil {
			return nil, err
		}
		var warnings []Warning
		if options.DNS, warnings, err = parts.Files.DNS(pod); err != nil {
			return nil, err
		}
		for _, warning := range warnings {
			w.kubelet.recorder.Event(pod, corev1.EventTypeWarning, warning.Reason, warning.Message)
		}
	}
	if parts.Volumes != nil {
		options.Groups = parts.Volumes.Groups(pod)
	}
	w.prepared.sandbox = &options
	return &options, nil
}

// runtimeHandler is what the runtime calls the pod's RuntimeClass; "" for its default.
func (w *worker) runtimeHandler(ctx context.Context, pod *corev1.Pod) (string, error) {
	name := pod.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return "", nil
	}
	class, err := w.kubelet.client.NodeV1().RuntimeClasses().Get(ctx, *name, metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("RuntimeClass %q not found", *name)
	}
	if err != nil {
		return "", fmt.Errorf("get RuntimeClass %q: %w", *name, err)
	}
	return class.Handler, nil
}
