package kubelet

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// worker brings one pod to where its spec wants it. It ends when the pod is gone from the API server and from the
// runtime, or with the kubelet.
type worker struct {
	kubelet *Kubelet
	uid     types.UID
	wake    chan struct{} // holds one token when there is something to look at

	mu   sync.Mutex
	pod  *corev1.Pod // the newest the watch has brought
	gone bool        // deleted from the API server

	// Used by the worker's goroutine only.
	began   time.Time
	backoff backoff
	waiting map[string]*waiting // containers that could not be started, by name
	stop    *stop               // the end of the containers, under way; nil: they have not been asked to end
	ended   bool                // nothing is started any more
	verdict *corev1.PodStatus   // phase, reason and message when it is the kubelet that ended the pod; else nil
	cleaned bool                // the last status is written and the runtime has forgotten the pod
}

func newWorker(k *Kubelet, pod *corev1.Pod) *worker {
	return &worker{
		kubelet: k, uid: pod.UID, wake: make(chan struct{}, 1), pod: pod,
		began: time.Now(), backoff: backoff{}, waiting: map[string]*waiting{},
	}
}

func (k *Kubelet) add(ctx context.Context, pod *corev1.Pod, initial bool) {
	if restorer, ok := k.config.Runtime.(Restorer); ok && initial {
		restorer.Restore(pod)
	}
	k.update(ctx, pod)
}

func (k *Kubelet) update(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.workers[pod.UID]
	if w != nil {
		w.mu.Lock()
		w.pod = pod
		w.mu.Unlock()
		w.signal()
		return
	}
	w = newWorker(k, pod)
	k.workers[pod.UID] = w
	w.signal()
	k.running.Go(func() { w.run(ctx) })
}

func (k *Kubelet) remove(pod *corev1.Pod) {
	k.mu.Lock()
	w := k.workers[pod.UID]
	k.mu.Unlock()
	if w == nil {
		return
	}
	w.mu.Lock()
	w.gone = true
	w.mu.Unlock()
	w.signal()
}

// look makes the worker of a pod look again, because something changed in the runtime.
func (k *Kubelet) look(uid types.UID) {
	k.mu.Lock()
	w := k.workers[uid]
	k.mu.Unlock()
	if w != nil {
		w.signal()
	}
}

func (w *worker) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) newest() (pod *corev1.Pod, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod, w.gone
}

func (w *worker) run(ctx context.Context) {
	defer func() {
		k := w.kubelet
		k.mu.Lock()
		delete(k.workers, w.uid)
		k.mu.Unlock()
		k.status.forget(w.uid)
	}()
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-again.C:
		}
		pod, gone := w.newest()
		wait, done := w.sync(ctx, pod, gone)
		if done {
			return
		}
		if wait <= 0 {
			wait = time.Minute
		}
		again.Reset(wait)
	}
}
