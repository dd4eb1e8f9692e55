package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kubelet/internal/podcontainers"
)

// minimumGrace is what every container is given (kuberuntime_container.go minimumGracePeriodInSeconds).
const minimumGrace = 2 * time.Second

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
				w.warn(ctx, "the kubelet could not stop the containers of a pod; it tries again", pod, err)
				return retryDelay, false
			}
			w.stopped = true
			return then()
		default:
		}
		if grace >= s.grace {
			if anyRunning(now) { // readiness is told to the last: nothing new is to be sent to whom nobody is ready
				w.reportObserved(pod, now, false)
			}
			return 0, false // the stop is under way and will wake us
		}
		s.cancel()
		<-s.done
		w.stop = nil
	} else {
		w.announce(pod, now)
	}
	if now.sandbox == nil || w.stopped && !now.sandbox.Ready && !anyRunning(now) {
		return then() // a dead sandbox that nobody has stopped still has the pod's network
	}
	w.reportObserved(pod, now, false)
	stopping, cancel := context.WithCancel(ctx)
	s := &stop{grace: grace, cancel: cancel, done: make(chan error, 1)}
	w.stop = s
	w.kubelet.running.Go(func() {
		s.done <- w.guard(pod, func() error { return w.stopAll(stopping, pod, now, grace) })
		w.signal()
	})
	return 0, false
}

func (w *worker) announce(pod *corev1.Pod, now observed) {
	for c := range podcontainers.All(pod) {
		if have := now.containers[c.Name]; have != nil && have.State == ContainerRunning {
			w.kubelet.recorder.Eventf(containerReference(pod, c), corev1.EventTypeNormal, "Killing", "Stopping container %s", c.Name)
		}
	}
}

// turn is a container of a pod that ends.
type turn struct {
	spec      *corev1.Container
	container *Container
	ended     chan struct{} // closed when it has ended
}

// stopAll stops the containers of a pod, then the sandbox. preStop hooks run at once; then the pod's own containers end, and
// behind them the sidecars, the last one first. All share the grace: when it is over nobody waits for his turn any more
// (kuberuntime_termination_order.go).
func (w *worker) stopAll(ctx context.Context, pod *corev1.Pod, now observed, grace time.Duration) error {
	var own, sidecars []*turn // sidecars: in the order of their ends
	known := map[string]bool{}
	for c := range podcontainers.All(pod) {
		known[c.Name] = true
		have := now.containers[c.Name]
		if have == nil || have.State != ContainerRunning {
			continue
		}
		t := &turn{spec: c, container: have, ended: make(chan struct{})}
		if initContainer(pod, c) && sidecar(c) {
			sidecars = append([]*turn{t}, sidecars...)
		} else {
			own = append(own, t)
		}
	}
	for name, have := range now.containers { // of a pod whose spec is not known any more
		if !known[name] && have.State == ContainerRunning {
			own = append(own, &turn{spec: &corev1.Container{Name: name}, container: have, ended: make(chan struct{})})
		}
	}
	ips := ipsOf(w.addressed(pod, now))
	errs := make(chan error, len(own)+len(sidecars))
	begin := func(t *turn, before []*turn) {
		go func() {
			defer close(t.ended)
			errs <- w.guard(pod, func() error { return w.stopOne(ctx, pod, t, ips, grace, before) })
		}()
	}
	for _, t := range own {
		begin(t, nil)
	}
	for i, t := range sidecars {
		if i == 0 {
			begin(t, own)
		} else {
			begin(t, sidecars[i-1:i])
		}
	}
	var failed error
	for range len(own) + len(sidecars) {
		failed = errors.Join(failed, <-errs)
	}
	if failed != nil {
		return failed
	}
	return w.kubelet.config.Runtime.StopSandbox(ctx, w.uid)
}

// stopOne runs the preStop hook of a container, waits for those that end before it, and stops it within what is left of the grace.
func (w *worker) stopOne(ctx context.Context, pod *corev1.Pod, t *turn, ips []string, grace time.Duration, before []*turn) error {
	over, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	began := time.Now()
	if err := w.preStop(over, pod, t.spec, t.container.ID, ips); err != nil {
		w.kubelet.recorder.Event(containerReference(pod, t.spec), corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
		w.warn(ctx, "the preStop hook of a container failed; the kubelet stops the container all the same", pod, err)
	}
	for _, other := range before {
		select {
		case <-other.ended:
		case <-over.Done():
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return w.kubelet.config.Runtime.StopContainer(ctx, t.container.ID, max(minimumGrace, grace-time.Since(began).Truncate(time.Second)))
}

// preStop runs the preStop hook of a container, if it has one that has not been run. A hook that is not done when the grace is
// over is left alone.
func (w *worker) preStop(ctx context.Context, pod *corev1.Pod, c *corev1.Container, id string, ips []string) error {
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || ctx.Err() != nil {
		return nil
	}
	w.mu.Lock()
	had := w.hooked[id]
	if w.hooked == nil {
		w.hooked = map[string]bool{}
	}
	w.hooked[id] = true
	w.mu.Unlock()
	if had {
		return nil
	}
	err := w.kubelet.runHook(ctx, pod, c, id, ips, c.Lifecycle.PreStop)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// killContainer stops one container of a pod that goes on.
func (w *worker) killContainer(ctx context.Context, pod *corev1.Pod, k kill) error {
	w.kubelet.recorder.Event(containerReference(pod, k.spec), corev1.EventTypeNormal, "Killing", k.message)
	grace := specGrace(pod)
	if k.grace != nil {
		grace = time.Duration(*k.grace) * time.Second
	}
	t := &turn{spec: k.spec, container: k.container}
	return w.stopOne(ctx, pod, t, ipsOf(pod), grace, nil)
}

// finishEnd writes the last status of a pod that stays in the API, and gives back what it had of the node.
func (w *worker) finishEnd(ctx context.Context, pod *corev1.Pod) (wait time.Duration) {
	if w.released {
		w.evictionDone() // whoever wants its end has it
		return 0
	}
	if wait := w.report(ctx, pod, true); wait > 0 {
		return wait
	}
	if err := w.release(ctx, pod); err != nil {
		w.warn(ctx, "the kubelet could not give back what a pod had of the node; it tries again", pod, err)
		return retryDelay
	}
	w.evictionDone()
	return 0
}

// finishDeletion writes the last status of a pod whose containers have ended, gives back what it had of the node, and lets the
// API server forget it, and then the runtime.
func (w *worker) finishDeletion(ctx context.Context, pod *corev1.Pod) (time.Duration, bool) {
	k := w.kubelet
	if !w.released {
		if wait := w.report(ctx, pod, true); wait > 0 {
			return wait, false
		}
	}
	if err := w.release(ctx, pod); err != nil {
		w.warn(ctx, "the kubelet could not give back what a pod had of the node; it tries again", pod, err)
		return retryDelay, false
	}
	w.evictionDone()
	if !k.status.written(ctx, w.uid) {
		return retryDelay, false
	}
	if time.Since(w.deleted) >= resyncPeriod { // what wakes the worker until the watch says that the pod is gone changes nothing
		now := int64(0)
		err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now,
			Preconditions:      &metav1.Preconditions{UID: &pod.UID},
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			w.warn(ctx, "the kubelet could not delete a pod that has ended; it tries again", pod, err)
			return retryDelay, false
		}
		w.deleted = time.Now()
	}
	if _, done := w.clean(ctx, pod); !done { // nobody waits for what the runtime remembers of it
		return retryDelay, false
	}
	// Finalizers may hold the object: the worker stays until the watch says that it is gone.
	return 0, false
}

// clean takes away everything that the node has of a pod.
func (w *worker) clean(ctx context.Context, pod *corev1.Pod) (time.Duration, bool) {
	if w.cleaned {
		return 0, true
	}
	err := w.release(ctx, pod)
	if err == nil {
		if err = w.kubelet.config.Runtime.RemovePod(ctx, w.uid); err != nil {
			err = fmt.Errorf("remove the pod from the runtime: %w", err)
		}
	}
	if err != nil {
		w.warn(ctx, "the kubelet could not give back what a pod had of the node; it tries again", pod, err)
		return retryDelay, false
	}
	w.cleaned = true
	w.kubelet.allocations.Forget(w.uid)
	w.evictionDone()
	return 0, true
}
