package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	k := w.kubelet
	now, err := w.observe(ctx)
	if err != nil {
		k.config.Logger.Warn("cannot sync pod", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
		return retryDelay, false
	}
	switch {
	case gone:
		return w.end(ctx, pod, now, 0, func() (time.Duration, bool) { return w.clean(ctx, pod) })
	case pod.DeletionTimestamp != nil:
		return w.end(ctx, pod, now, deletionGrace(pod), func() (time.Duration, bool) { return w.finishDeletion(ctx, pod) })
	case w.terminated || finished(pod):
		w.terminated = true
		return w.end(ctx, pod, now, 0, func() (time.Duration, bool) { return 0, false })
	case w.pastDeadline(pod):
		why := &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}
		return w.end(ctx, pod, now, specGrace(pod), func() (time.Duration, bool) {
			w.terminated = true
			k.recorder.Event(pod, corev1.EventTypeNormal, why.Reason, why.Message)
			return w.report(ctx, pod, why), false
		})
	}
	wait, err = w.advance(ctx, pod, now)
	reported := w.report(ctx, pod, nil)
	if err != nil {
		k.config.Logger.Warn("cannot sync pod", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
		return retryDelay, false
	}
	return earliest(wait, reported, w.untilDeadline(pod)), false
}

// report writes the status of the pod as the runtime shows it now. override replaces what its set fields say.
func (w *worker) report(ctx context.Context, pod *corev1.Pod, override *corev1.PodStatus) (wait time.Duration) {
	now, err := w.observe(ctx)
	if err != nil {
		return retryDelay
	}
	w.kubelet.status.set(pod, w.kubelet.podStatus(pod, now, override))
	return 0
}

// advance starts whatever should run and does not.
func (w *worker) advance(ctx context.Context, pod *corev1.Pod, now observed) (wait time.Duration, err error) {
	k := w.kubelet
	runtime := k.config.Runtime
	if now.sandbox != nil && !now.sandbox.Ready {
		k.recorder.Event(pod, corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		if err := runtime.RemovePod(ctx, w.uid); err != nil {
			return 0, fmt.Errorf("remove the dead sandbox: %w", err)
		}
		now.sandbox = nil
	}
	if now.sandbox == nil {
		k.status.set(pod, k.podStatus(pod, now, nil))
		k.status.written(ctx, w.uid) // people see that the pod has arrived, however soon it runs
		sandbox, err := runtime.RunSandbox(ctx, pod)
		if err != nil {
			k.recorder.Eventf(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
			return 0, fmt.Errorf("create the sandbox: %w", err)
		}
		now.sandbox = sandbox
	}
	wait, initialized, err := w.advanceInit(ctx, pod, now)
	if err != nil || !initialized {
		return wait, err
	}
	var failed error
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		restart := pod.Spec.RestartPolicy
		again, err := w.advanceContainer(ctx, pod, c, now, restart)
		failed = errors.Join(failed, err)
		wait = earliest(wait, again)
	}
	if failed == nil && allEnded(pod, now) {
		// Only sidecars are left: they end with the containers they serve.
		w.terminated = true
		w.signal()
	}
	return wait, failed
}

// advanceInit starts the init containers one after another. initialized says that the containers may start.
func (w *worker) advanceInit(ctx context.Context, pod *corev1.Pod, now observed) (wait time.Duration, initialized bool, err error) {
	started := anyStarted(pod, now)
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		have := now.containers[c.Name]
		if sidecar(c) {
			again, err := w.advanceContainer(ctx, pod, c, now, corev1.RestartPolicyAlways)
			if err != nil {
				return 0, false, err
			}
			wait = earliest(wait, again)
			continue
		}
		switch {
		case started, have != nil && have.State == ContainerExited && have.ExitCode == 0:
			continue
		case have != nil && have.State == ContainerExited && pod.Spec.RestartPolicy == corev1.RestartPolicyNever:
			return wait, false, nil // the pod has failed; allEnded and the phase know
		}
		again, err := w.advanceContainer(ctx, pod, c, now, corev1.RestartPolicyOnFailure)
		return earliest(wait, again), false, err
	}
	return wait, true, nil
}

// advanceContainer starts one container if it should run, or says when it may be restarted.
func (w *worker) advanceContainer(ctx context.Context, pod *corev1.Pod, c *corev1.Container, now observed, policy corev1.RestartPolicy) (wait time.Duration, err error) {
	k := w.kubelet
	have := now.containers[c.Name]
	switch {
	case have == nil:
		return 0, w.start(ctx, pod, c, 0)
	case have.State != ContainerExited:
		if have.Image == c.Image {
			return 0, nil
		}
		k.recorder.Eventf(pod, corev1.EventTypeNormal, "Killing", "Container %s definition changed, will be restarted", c.Name)
		if err := k.config.Runtime.StopContainer(ctx, have.ID, specGrace(pod)); err != nil {
			return 0, fmt.Errorf("stop container %s: %w", c.Name, err)
		}
		return 0, w.start(ctx, pod, c, have.Attempt+1)
	case !restarts(policy, have):
		return 0, nil
	}
	if left := time.Until(k.backoff.until(w.uid, have)); left > 0 {
		k.recorder.Eventf(pod, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)", c.Name, pod.Name, pod.Namespace, pod.UID)
		return left, nil
	}
	k.backoff.restarted(w.uid, c.Name)
	return 0, w.start(ctx, pod, c, have.Attempt+1)
}

func (w *worker) start(ctx context.Context, pod *corev1.Pod, c *corev1.Container, attempt int32) error {
	k := w.kubelet
	image, pulled, err := k.config.Runtime.EnsureImage(ctx, c.Image, c.ImagePullPolicy)
	if err != nil {
		k.recorder.Eventf(pod, corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", c.Image, err)
		return fmt.Errorf("pull image %s: %w", c.Image, err)
	}
	if pulled {
		k.recorder.Eventf(pod, corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q", c.Image)
	} else {
		k.recorder.Eventf(pod, corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine", c.Image)
	}
	if _, err := k.config.Runtime.StartContainer(ctx, pod, c, image, attempt); err != nil {
		k.recorder.Eventf(pod, corev1.EventTypeWarning, "Failed", "Error: %v", err)
		return fmt.Errorf("start container %s: %w", c.Name, err)
	}
	k.recorder.Eventf(pod, corev1.EventTypeNormal, "Created", "Created container: %s", c.Name)
	k.recorder.Eventf(pod, corev1.EventTypeNormal, "Started", "Started container %s", c.Name)
	return nil
}

// end stops a pod's containers in the background and calls then once they have ended.
func (w *worker) end(ctx context.Context, pod *corev1.Pod, now observed, grace time.Duration, then func() (time.Duration, bool)) (time.Duration, bool) {
	if w.stopped != nil {
		select {
		case err := <-w.stopped:
			w.stopped = nil
			if err != nil {
				w.kubelet.config.Logger.Warn("cannot stop pod", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
				return retryDelay, false
			}
		default:
			return 0, false // the stop is under way and will wake us
		}
	}
	if now.sandbox == nil || !now.sandbox.Ready && !anyRunning(now) {
		return then()
	}
	stopped := make(chan error, 1)
	w.stopped = stopped
	running := make([]*Container, 0, len(now.containers))
	for _, c := range now.containers {
		if c.State == ContainerRunning {
			running = append(running, c)
			w.kubelet.recorder.Eventf(pod, corev1.EventTypeNormal, "Killing", "Stopping container %s", c.Name)
		}
	}
	w.kubelet.running.Go(func() {
		errs := make(chan error, len(running))
		for _, c := range running {
			go func() { errs <- w.kubelet.config.Runtime.StopContainer(ctx, c.ID, grace) }()
		}
		var failed error
		for range running {
			failed = errors.Join(failed, <-errs)
		}
		stopped <- errors.Join(failed, w.kubelet.config.Runtime.StopSandbox(ctx, w.uid))
		w.signal()
	})
	return 0, false
}

// finishDeletion writes the last status of a pod whose containers have ended, and lets the API server forget it.
func (w *worker) finishDeletion(ctx context.Context, pod *corev1.Pod) (time.Duration, bool) {
	k := w.kubelet
	if wait := w.report(ctx, pod, nil); wait > 0 {
		return wait, false
	}
	if !k.status.written(ctx, w.uid) {
		return retryDelay, false
	}
	if _, done := w.clean(ctx, pod); !done {
		return retryDelay, false
	}
	now := int64(0)
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now,
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		if ctx.Err() == nil {
			k.config.Logger.Warn("cannot delete pod", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
		}
		return retryDelay, false
	}
	// Finalizers may hold the object: the worker stays until the watch says that it is gone.
	return 0, false
}

// clean removes the pod from the runtime.
func (w *worker) clean(ctx context.Context, pod *corev1.Pod) (time.Duration, bool) {
	if err := w.kubelet.config.Runtime.RemovePod(ctx, w.uid); err != nil {
		w.kubelet.config.Logger.Warn("cannot remove pod from the runtime", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
		return retryDelay, false
	}
	return 0, true
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
