package kubelet

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/internal/panics"
)

// startContainer starts containers of one pod, within one round of its worker.
type launch struct {
	*worker
	pod     *corev1.Pod // with its addresses in the status
	now     observed
	secrets []*corev1.Secret // to pull images with; only when an image is asked for
	sandbox *SandboxOptions  // with which the pod's sandbox is, or was, made
	images  map[string]*imageAnswer
	hold    context.Context // ends when the pod is to end: for what may be given up
}

// imageAnswer is an image that has been asked for before the container's turn has come.
type imageAnswer struct {
	done  chan struct{} // closed when the rest is there
	image Image
	err   error
}

// prefetch asks for the images of containers that will be started soon, while the sandbox is made.
func (l *launch) prefetch(containers []*corev1.Container) {
	for _, c := range containers {
		if l.images[c.Name] != nil || l.waiting[c.Name].backsOff(c.Image) {
			continue
		}
		answer := &imageAnswer{done: make(chan struct{})}
		l.images[c.Name] = answer
		pod := l.pod
		l.kubelet.running.Go(func() {
			defer close(answer.done)
			answer.image, answer.err = panics.Call(l.kubelet.config.Logger, panics.PodWorker, func() (Image, error) { return l.ensureImage(pod, c) },
				"namespace", pod.Namespace, "pod", pod.Name)
		})
	}
}

// image is the image of a container whose turn has come.
func (l *launch) image(c *corev1.Container) (image Image, err error) {
	if answer := l.images[c.Name]; answer != nil {
		<-answer.done
		image, err = answer.image, answer.err
	} else {
		image, err = l.ensureImage(l.pod, c)
	}
	if err != nil {
		return image, err
	}
	reference, recorder := containerReference(l.pod, c), l.kubelet.recorder
	if image.Pulled {
		recorder.Eventf(reference, corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.",
			c.Image, (image.Took - image.Waited).Truncate(time.Millisecond), image.Took.Truncate(time.Millisecond), image.Size)
	} else {
		recorder.Eventf(reference, corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine and can be accessed by the pod", c.Image)
	}
	return image, nil
}

func (l *launch) ensureImage(pod *corev1.Pod, c *corev1.Container) (Image, error) {
	reference, recorder := containerReference(pod, c), l.kubelet.recorder
	return l.kubelet.config.Runtime.EnsureImage(l.hold, ImageRequest{
		Pod: pod, Container: c, Secrets: l.secrets, Handler: l.sandbox.Handler,
		Began: func() { recorder.Eventf(reference, corev1.EventTypeNormal, "Pulling", "Pulling image %q", c.Image) },
		Progress: func(done, total int64) {
			recorder.Eventf(reference, corev1.EventTypeNormal, "Pulling", "Pulling image %q: %s of %s", c.Image, megabytes(done), megabytes(total))
		},
	})
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.1fMB", float64(bytes)/1e6) }

// start starts a container. What hinders it is no error but waited for, as the container's status and events tell: wait says
// for how long, 0 when the container runs.
func (l *launch) start(ctx context.Context, c *corev1.Container) (wait time.Duration) {
	if before := l.waiting[c.Name]; before != nil && before.retry > 0 {
		if left := time.Until(before.until); left > 0 {
			return left
		}
	}
	if wait := l.imageBackoff(c); wait > 0 {
		return wait
	}
	image, err := l.image(c)
	if err != nil {
		if l.hold.Err() != nil {
			return retryDelay
		}
		return l.imageFailed(c, err)
	}
	if err := l.startContainer(ctx, c, image); err != nil {
		return l.startFailed(ctx, c, err)
	}
	delete(l.waiting, c.Name)
	return 0
}

// imageBackoff says how long to wait until a pull that has failed is tried again.
func (l *launch) imageBackoff(c *corev1.Container) time.Duration {
	before := l.waiting[c.Name]
	if !before.backsOff(c.Image) {
		return 0
	}
	left := time.Until(before.until)
	if left <= 0 {
		return 0
	}
	if before.backOff(time.Now()) {
		reference := containerReference(l.pod, c)
		l.kubelet.recorder.Eventf(reference, corev1.EventTypeNormal, "BackOff", "Back-off pulling image %q", c.Image)
		l.kubelet.recorder.Event(reference, corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
	}
	return earliest(left, before.shows(time.Now()))
}

// imageFailed notes why an image cannot be had, with the events of upstream's image_manager.go.
func (l *launch) imageFailed(c *corev1.Container, err error) (wait time.Duration) {
	reference, recorder := containerReference(l.pod, c), l.kubelet.recorder
	reason, pulled := "ErrImagePull", true
	if known := (*ImageError)(nil); errors.As(err, &known) {
		reason = known.Reason
	}
	switch reason {
	case "InvalidImageName", "ImageInspectError":
		recorder.Event(reference, corev1.EventTypeWarning, "InspectFailed", err.Error())
		pulled = false
	case "ErrImageNeverPull":
		recorder.Event(reference, corev1.EventTypeWarning, reason, err.Error())
		pulled = false
	default:
		recorder.Eventf(reference, corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", c.Image, err)
	}
	recorder.Event(reference, corev1.EventTypeWarning, "Failed", "Error: "+reason)
	if pulled {
		l.waiting[c.Name] = pullFailed(l.waiting[c.Name], c.Image, reason, err, time.Now())
		return retryDelay
	}
	return l.holdUp(c, reason, err.Error())
}

// startFailed notes why a container could not be made or started.
func (l *launch) startFailed(ctx context.Context, c *corev1.Container, err error) (wait time.Duration) {
	if ctx.Err() != nil {
		return retryDelay
	}
	reason := "RunContainerError"
	if known := (*ContainerError)(nil); errors.As(err, &known) {
		reason = known.Reason
	}
	if reason != "PostStartHookError" { // that has an event of its own, without the message: it may tell secrets
		l.kubelet.recorder.Eventf(containerReference(l.pod, c), corev1.EventTypeWarning, "Failed", "Error: %v", err)
	}
	l.warn(ctx, "the kubelet could not start a container; it tries again with back-off if the pod's restart policy says so", l.pod, err, "container", c.Name)
	return l.holdUp(c, reason, err.Error())
}

// holdUp notes why a container waits, and says when to try again: sooner at first.
func (l *launch) holdUp(c *corev1.Container, reason, message string) (wait time.Duration) {
	next := &waiting{reason: reason, message: message, retry: firstRetryDelay}
	if before := l.waiting[c.Name]; before != nil && before.retry > 0 {
		next.retry = min(2*before.retry, lastRetryDelay)
	}
	next.until = time.Now().Add(next.retry)
	l.waiting[c.Name] = next
	return next.retry
}

// startContainer creates a container, starts it and runs its postStart hook. It fails with a *ContainerError.
func (l *launch) startContainer(ctx context.Context, c *corev1.Container, image Image) error {
	k, reference := l.kubelet, containerReference(l.pod, c)
	options, done, err := l.options(ctx, c)
	if done != nil {
		defer done()
	}
	if err != nil {
		return asContainerError("CreateContainerConfigError", err)
	}
	k.allocations.Actuate(l.uid, c)
	options.Attempt, options.ImageID = l.now.nextAttempt(l.pod, c.Name), image.ID
	id, err := k.config.Runtime.CreateContainer(ctx, l.pod, c, options)
	if err != nil {
		return asContainerError("CreateContainerError", err)
	}
	k.recorder.Event(reference, corev1.EventTypeNormal, "Created", "Container created")
	if err := k.config.Runtime.StartContainer(ctx, id); err != nil {
		return asContainerError("RunContainerError", err)
	}
	k.recorder.Event(reference, corev1.EventTypeNormal, "Started", "Container started")
	k.metrics.containerStarted(containerKind(l.pod, c))
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return nil
	}
	failed := k.runHook(l.hold, l.pod, c, id, ipsOf(l.pod), c.Lifecycle.PostStart)
	if failed == nil || l.hold.Err() != nil {
		return nil
	}
	k.recorder.Event(reference, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	running := &Container{ID: id, Name: c.Name, State: ContainerRunning}
	if err := l.killContainer(l.hold, l.pod, kill{container: running, spec: c, message: "FailedPostStartHook"}); err != nil {
		l.warn(ctx, "the kubelet could not stop a container whose postStart hook failed; it tries again", l.pod, err, "container", c.Name)
	}
	return &ContainerError{Reason: "PostStartHookError", Message: failed.Error()}
}

// asContainerError gives an error a reason, unless it has one.
func asContainerError(reason string, err error) error {
	if known := (*ContainerError)(nil); errors.As(err, &known) {
		return err
	}
	return &ContainerError{Reason: reason, Message: err.Error()}
}

// options is what a container needs beside its spec. done, when not nil, is to be called when the container has been created or
// could not be.
func (l *launch) options(ctx context.Context, c *corev1.Container) (options ContainerOptions, done func(), err error) {
	k := l.kubelet
	options.Sandbox, options.Command, options.Args = *l.sandbox, c.Command, c.Args
	if target := ephemeralTarget(l.pod, c.Name); target != "" {
		running := l.now.containers[target]
		if running == nil {
			return options, nil, fmt.Errorf("unable to find target container %v", target)
		}
		options.Target = running.ID
	}
	expanded := c
	if maker := k.config.Parts.Env; maker != nil {
		if options.Env, options.Command, options.Args, err = maker.Container(ctx, l.pod, c); err != nil {
			return options, nil, err
		}
		if expanded, err = subPaths(c, options.Env); err != nil {
			return options, nil, err
		}
	}
	if volumes := k.config.Parts.Volumes; volumes != nil {
		if options.Mounts, done, err = volumes.Mounts(ctx, l.pod, expanded); err != nil {
			return options, done, err
		}
		if options.Devices, err = volumes.Devices(ctx, l.pod, c); err != nil {
			return options, done, err
		}
		options.Groups = volumes.Groups(l.pod)
	}
	files, err := l.files(c)
	options.Mounts = append(options.Mounts, files...)
	return options, done, err
}

// files writes the files that the kubelet itself gives to a container.
func (l *launch) files(c *corev1.Container) (mounts []Mount, err error) {
	dir := l.kubelet.podDir(l.uid)
	if files := l.kubelet.config.Parts.Files; files != nil {
		if mounts, err = files.Mounts(l.pod, c); err != nil {
			return nil, err
		}
	}
	if dir != "" && c.TerminationMessagePath != "" {
		file, err := makeMessageFile(filepath.Join(dir, "containers", c.Name))
		if err != nil {
			return nil, fmt.Errorf("make the file of the termination message: %w", err)
		}
		mounts = append(mounts, Mount{HostPath: file, ContainerPath: c.TerminationMessagePath, SELinuxRelabel: true})
	}
	return mounts, nil
}

// makeMessageFile makes the file that a container may leave its last words in, one for each attempt.
func makeMessageFile(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	name := hex.EncodeToString([]byte{byte(rand.Uint32()), byte(rand.Uint32()), byte(rand.Uint32()), byte(rand.Uint32())})
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		return "", err
	}
	return file, os.Chmod(file, 0o666) // whatever the umask says: any user of the container may write
}

// ephemeralTarget is the container that an ephemeral one looks into; "" for others.
func ephemeralTarget(pod *corev1.Pod, name string) string {
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			return c.TargetContainerName
		}
	}
	return ""
}

// nextAttempt counts the next attempt at a container: behind the newest that the runtime shows or the status tells of.
func (o observed) nextAttempt(pod *corev1.Pod, name string) int32 {
	next := int32(0)
	for _, c := range []*Container{o.containers[name], o.previous[name]} {
		if c != nil {
			next = max(next, c.Attempt+1)
		}
	}
	if old := reported(pod, name); next == 0 && old != nil && (old.ContainerID != "" || old.LastTerminationState.Terminated != nil) {
		next = old.RestartCount + 1 // the runtime has forgotten it
	}
	return next
}

func ipsOf(pod *corev1.Pod) (ips []string) {
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

// containerReference names a container of a pod as events do.
func containerReference(pod *corev1.Pod, c *corev1.Container) *corev1.ObjectReference {
	field := "containers"
	switch {
	case initContainer(pod, c):
		field = "initContainers"
	case ephemeral(pod, c.Name):
		field = "ephemeralContainers"
	}
	reference := podReference(pod)
	reference.FieldPath = strings.Join([]string{"spec.", field, "{", c.Name, "}"}, "")
	return reference
}
