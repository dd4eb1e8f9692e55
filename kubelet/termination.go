package kubelet

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stop is the end of a pod's containers, under way.
type stop struct {
	grace  time.Duration
	cancel context.CancelFunc
	done   chan error // gets one value
}

// end stops a pod's containers in the background and calls then once they have ended. When it is called again with less grace
// the containers are asked again.
func (w *worker) end(ctx context.Context, pod *corev1.Pod, now observed, grace time.Duration, then func() (time.Duration, bool)) (time.Duration, bool) {
	if s := w.stop; s != nil {
		select {
		case err := <-s.done:
			s.cancel()
			w.stop = nil
			if err != nil {
				w.warn(ctx, "cannot stop pod", pod, err)
				return retryDelay, false
			}
			return then()
		default:
		}
		if grace >= s.grace {
			return 0, false // the stop is under way and will wake us
		}
		s.cancel()
		<-s.done
		w.stop = nil
	}
	if now.sandbox == nil || !now.sandbox.Ready && !anyRunning(now) {
		return then()
	}
	var own, sidecars []*Container // sidecars: last one first
	for i := range pod.Spec.InitContainers {
		if c := now.containers[pod.Spec.InitContainers[i].Name]; c != nil && sidecar(&pod.Spec.InitContainers[i]) {
			sidecars = append([]*Container{c}, sidecars...)
		} else {
			own = append(own, c)
		}
	}
	for i := range pod.Spec.Containers {
		own = append(own, now.containers[pod.Spec.Containers[i].Name])
	}
	w.announce(pod, now)
	stopping, cancel := context.WithCancel(ctx)
	s := &stop{grace: grace, cancel: cancel, done: make(chan error, 1)}
	w.stop = s
	w.kubelet.running.Go(func() {
		s.done <- w.stopAll(stopping, own, sidecars, grace)
		w.signal()
	})
	return 0, false
}

func (w *worker) announce(pod *corev1.Pod, now observed) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if c := now.containers[containers[i].Name]; c != nil && c.State == ContainerRunning {
				w.kubelet.recorder.Eventf(containerReference(pod, &containers[i]), corev1.EventTypeNormal, "Killing", "Stopping container %s", c.Name)
			}
		}
	}
}

// stopAll stops the pod's own containers at once, then its sidecars one after another, then the sandbox. All share the grace.
func (w *worker) stopAll(ctx context.Context, own, sidecars []*Container, grace time.Duration) error {
	runtime, began := w.kubelet.config.Runtime, time.Now()
	errs := make(chan error, len(own))
	for _, c := range own {
		go func() {
			if c == nil || c.State != ContainerRunning {
				errs <- nil
				return
			}
			errs <- runtime.StopContainer(ctx, c.ID, grace)
		}()
	}
	var failed error
	for range own {
		failed = errors.Join(failed, <-errs)
	}
	for _, c := range sidecars {
		if failed == nil && c.State == ContainerRunning {
			failed = runtime.StopContainer(ctx, c.ID, max(0, grace-time.Since(began)))
		}
	}
	if failed != nil {
		return failed
	}
	return runtime.StopSandbox(ctx, w.uid)
}

// finishDeletion writes the last status of a pod whose containers have ended, and lets the API server forget it.
func (w *worker) finishDeletion(ctx context.Context, pod *corev1.Pod) (time.Duration, bool) {
	k := w.kubelet
	if !w.cleaned {
		if wait := w.report(ctx, pod, true); wait > 0 {
			return wait, false
		}
		if !k.status.written(ctx, w.uid) {
			return retryDelay, false
		}
		if _, done := w.clean(ctx, pod); !done {
			return retryDelay, false
		}
		w.cleaned = true
	}
	now := int64(0)
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now,
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		w.warn(ctx, "cannot delete pod", pod, err)
		return retryDelay, false
	}
	// Finalizers may hold the object: the worker stays until the watch says that it is gone.
	return 0, false
}

// clean removes the pod from the runtime.
func (w *worker) clean(ctx context.Context, pod *corev1.Pod) (time.Duration, bool) {
	if err := w.kubelet.config.Runtime.RemovePod(ctx, w.uid); err != nil {
		w.warn(ctx, "cannot remove pod from the runtime", pod, err)
		return retryDelay, false
	}
	return 0, true
}
