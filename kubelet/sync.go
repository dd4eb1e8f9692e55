package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// retryDelay is how long a worker waits after the runtime has failed.
const retryDelay = 2 * time.Second

// observed is what the runtime shows of a pod.
type observed struct {
	sandbox    *Sandbox
	containers map[string]*Container // newest attempt by name
	previous   map[string]*Container // the attempt before, where the runtime still has it
}

func (w *worker) observe(ctx context.Context) (observed, error) {
	sandbox, all, err := w.kubelet.config.Runtime.Pod(ctx, w.uid)
	if err != nil {
		return observed{}, fmt.Errorf("ask the runtime: %w", err)
	}
	o := observed{sandbox: sandbox, containers: map[string]*Container{}, previous: map[string]*Container{}}
	for _, c := range all {
		switch {
		case o.containers[c.Name] == nil:
			o.containers[c.Name] = c
		case o.previous[c.Name] == nil:
			o.previous[c.Name] = c
		}
	}
	return o, nil
}

// sync does the next thing for a pod, reports its status, and says when to look again at the latest (0: when something
// happens). done says that there is nothing left to do for this pod, ever.
func (w *worker) sync(ctx context.Context, pod *corev1.Pod, gone bool) (wait time.Duration, done bool) {
	now, err := w.observe(ctx)
	if err != nil {
		w.warn(ctx, "cannot sync pod", pod, err)
		return retryDelay, false
	}
	if !gone && pod.DeletionTimestamp == nil && !w.ended {
		w.ended = finished(pod)
		if !w.ended && w.pastDeadline(pod) {
			w.ended = true
			w.verdict = &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}
			w.kubelet.recorder.Event(pod, corev1.EventTypeNormal, w.verdict.Reason, w.verdict.Message)
		}
	}
	switch {
	case gone:
		return w.end(ctx, pod, now, 0, func() (time.Duration, bool) { return w.clean(ctx, pod) })
	case pod.DeletionTimestamp != nil:
		return w.end(ctx, pod, now, deletionGrace(pod), func() (time.Duration, bool) { return w.finishDeletion(ctx, pod) })
	case w.ended:
		return w.end(ctx, pod, now, specGrace(pod), func() (time.Duration, bool) { return w.report(ctx, pod, true), false })
	}
	wait, err = w.advance(ctx, pod, now)
	reported := w.report(ctx, pod, false)
	if err != nil {
		w.warn(ctx, "cannot sync pod", pod, err)
		return earliest(wait, retryDelay), false
	}
	return earliest(wait, reported, w.untilDeadline(pod)), false
}

func (w *worker) warn(ctx context.Context, what string, pod *corev1.Pod, err error) {
	if ctx.Err() == nil {
		w.kubelet.config.Logger.Warn(what, "namespace", pod.Namespace, "pod", pod.Name, "error", err)
	}
}

// report reports the status of the pod as the runtime shows it now. See podStatus for final.
func (w *worker) report(ctx context.Context, pod *corev1.Pod, final bool) (wait time.Duration) {
	now, err := w.observe(ctx)
	if err != nil {
		return retryDelay
	}
	w.kubelet.status.set(pod, w.podStatus(w.kubelet.status.latest(pod), now, final))
	return 0
}

// advance starts whatever should run and does not.
func (w *worker) advance(ctx context.Context, pod *corev1.Pod, now observed) (wait time.Duration, err error) {
	if now.sandbox != nil && !now.sandbox.Ready {
		if pod.Spec.RestartPolicy == corev1.RestartPolicyNever && len(now.containers) > 0 {
			w.finish()
			return 0, nil
		}
		w.kubelet.recorder.Event(pod, corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		if err := w.kubelet.config.Runtime.RemovePod(ctx, w.uid); err != nil {
			return 0, fmt.Errorf("remove the dead sandbox: %w", err)
		}
		now = observed{} // everything begins anew, init included
	}
	if now.sandbox == nil {
		w.report(ctx, pod, false)
		w.kubelet.status.written(ctx, w.uid) // people see that the pod has arrived, however soon it runs
		if now.sandbox, err = w.kubelet.config.Runtime.RunSandbox(ctx, pod, SandboxOptions{Hostname: pod.Name}); err != nil {
			w.kubelet.recorder.Eventf(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
			return 0, fmt.Errorf("create the sandbox: %w", err)
		}
	}
	if over(pod, now) {
		w.finish() // sidecars end with the containers they serve
		return 0, nil
	}
	wait, ready, err := w.advanceInit(ctx, pod, now)
	if !ready {
		return wait, err
	}
	for i := range pod.Spec.Containers {
		again, failed := w.advanceContainer(ctx, pod, &pod.Spec.Containers[i], now, pod.Spec.RestartPolicy)
		err = errors.Join(err, failed)
		wait = earliest(wait, again)
	}
	return wait, err
}

// finish notes that the pod has nothing left to do. The next round ends what still runs.
func (w *worker) finish() {
	w.ended = true
	w.signal()
}

// advanceInit starts the init containers one after another, and keeps sidecars running. ready says that the containers may start.
func (w *worker) advanceInit(ctx context.Context, pod *corev1.Pod, now observed) (wait time.Duration, ready bool, err error) {
	started := anyStarted(pod, now)
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		have := now.containers[c.Name]
		if !sidecar(c) && (started || have != nil && have.State == ContainerExited && have.ExitCode == 0) {
			continue
		}
		again, failed := w.advanceContainer(ctx, pod, c, now, initPolicy(pod, c))
		wait, err = earliest(wait, again), errors.Join(err, failed)
		if started {
			continue // a sidecar of a pod that runs holds nobody up
		}
		if !sidecar(c) || failed != nil || again > 0 {
			return wait, false, err
		}
	}
	return wait, true, err
}

// advanceContainer starts one container if it should run, or says when it may be started.
func (w *worker) advanceContainer(ctx context.Context, pod *corev1.Pod, c *corev1.Container, now observed, policy corev1.RestartPolicy) (wait time.Duration, err error) {
	k := w.kubelet
	have := now.containers[c.Name]
	switch {
	case have == nil:
		attempt := int32(0)
		if old := reported(pod, c.Name); old != nil && old.ContainerID != "" {
			attempt = old.RestartCount + 1 // it ran in a sandbox that is no more
		}
		return w.start(ctx, pod, c, attempt)
	case have.State == ContainerExited && !restarts(policy, have):
		return 0, nil
	case have.Requested != c.Image:
		if have.State != ContainerExited {
			k.recorder.Eventf(containerReference(pod, c), corev1.EventTypeNormal, "Killing", "Container %s definition changed, will be restarted", c.Name)
			if err := k.config.Runtime.StopContainer(ctx, have.ID, specGrace(pod)); err != nil {
				return 0, fmt.Errorf("stop container %s: %w", c.Name, err)
			}
		}
		delete(w.backoff, c.Name) // what has failed was another container
		return w.start(ctx, pod, c, have.Attempt+1)
	case have.State != ContainerExited:
		return 0, nil
	}
	if left := time.Until(w.backoff.until(have)); left > 0 {
		k.recorder.Eventf(containerReference(pod, c), corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)", c.Name, pod.Name, pod.Namespace, pod.UID)
		return left, nil
	}
	if wait, err = w.start(ctx, pod, c, have.Attempt+1); wait == 0 && err == nil {
		w.backoff.restarted(c.Name)
	}
	return wait, err
}

// reported finds what the pod's status says of a container; nil when it says nothing.
func reported(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	if s := statusOf(pod.Status.ContainerStatuses, container); s != nil {
		return s
	}
	return statusOf(pod.Status.InitContainerStatuses, container)
}

// start pulls the image and starts the container. An image that cannot be had is no error: it is waited for.
func (w *worker) start(ctx context.Context, pod *corev1.Pod, c *corev1.Container, attempt int32) (wait time.Duration, err error) {
	k, reference := w.kubelet, containerReference(pod, c)
	before := w.waiting[c.Name]
	if before.backsOff(c.Image) {
		if left := time.Until(before.until); left > 0 {
			if before.backOff(time.Now()) {
				k.recorder.Eventf(reference, corev1.EventTypeNormal, "BackOff", "Back-off pulling image %q", c.Image)
				k.recorder.Event(reference, corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
			}
			return earliest(left, before.shows(time.Now())), nil
		}
	}
	image, err := k.config.Runtime.EnsureImage(ctx, ImageRequest{Pod: pod, Container: c})
	if err != nil {
		k.recorder.Eventf(reference, corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", c.Image, err)
		k.recorder.Event(reference, corev1.EventTypeWarning, "Failed", "Error: ErrImagePull")
		w.waiting[c.Name] = pullFailed(before, c.Image, err, time.Now())
		return retryDelay, nil
	}
	if image.Pulled {
		k.recorder.Eventf(reference, corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q", c.Image)
	} else {
		k.recorder.Eventf(reference, corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine and can be accessed by the pod", c.Image)
	}
	id, err := k.config.Runtime.CreateContainer(ctx, pod, c, ContainerOptions{Attempt: attempt, ImageID: image.ID, Command: c.Command, Args: c.Args})
	if err == nil {
		err = k.config.Runtime.StartContainer(ctx, id)
	}
	if err != nil {
		k.recorder.Eventf(reference, corev1.EventTypeWarning, "Failed", "Error: %v", err)
		w.waiting[c.Name] = &waiting{reason: "RunContainerError", message: err.Error()}
		return 0, fmt.Errorf("start container %s: %w", c.Name, err)
	}
	delete(w.waiting, c.Name)
	k.recorder.Event(reference, corev1.EventTypeNormal, "Created", "Container created")
	k.recorder.Event(reference, corev1.EventTypeNormal, "Started", "Container started")
	return 0, nil
}

// containerReference names a container of a pod as events do.
func containerReference(pod *corev1.Pod, c *corev1.Container) *corev1.ObjectReference {
	field := "containers"
	if initContainer(pod, c) {
		field = "initContainers"
	}
	return &corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		FieldPath: fmt.Sprintf("spec.%s{%s}", field, c.Name),
	}
}

func (w *worker) untilDeadline(pod *corev1.Pod) time.Duration {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return 0
	}
	return max(time.Millisecond, time.Duration(*pod.Spec.ActiveDeadlineSeconds)*time.Second-time.Since(startTime(pod, w.began)))
}

func (w *worker) pastDeadline(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && w.untilDeadline(pod) <= time.Millisecond
}
