package kubelet

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer"
)

// resyncPeriod is how often a worker looks at its pod when nothing happens.
const resyncPeriod = time.Minute

// worker brings one pod to where its spec wants it. It ends when the pod is gone from the API server and from the
// runtime, or with the kubelet.
type worker struct {
	kubelet *Kubelet
	uid     types.UID
	static  bool          // the pod comes from a manifest, not from the API server
	wake    chan struct{} // holds one token when there is something to look at
	remount atomic.Bool   // volumes want to be looked at, however long they were to be waited for

	rejected atomic.Bool   // the pod was never let in
	victims  []*corev1.Pod // whom the pod was let in for, before its worker runs

	mu       sync.Mutex
	pod      *corev1.Pod // the newest the watch, or the manifest, has brought
	gone     bool        // deleted from the API server, or the manifest is gone
	eviction *eviction
	giveUp   context.CancelFunc // ends what may be given up of the round under way; nil between rounds
	hooked   map[string]bool    // IDs of containers whose preStop hook was run

	// Used by the worker's goroutine only.
	began    time.Time
	backoff  backoff
	waiting  map[string]*waiting // containers that could not be started, by name
	prepared prepared
	resizing resizing
	stop     *stop             // the end of the containers, under way; nil: they have not been asked to end
	stopped  bool              // they have ended, and so has the sandbox
	ended    bool              // nothing is started any more
	verdict  *corev1.PodStatus // phase, reason and message when it is the kubelet that ended the pod; else nil
	released bool              // what the pod had of the node, beside the runtime, is given back
	cleaned  bool              // the runtime has forgotten the pod
	ran      bool              // the pod has been seen running, or was there before this kubelet
}

func newWorker(k *Kubelet, pod *corev1.Pod) *worker {
	return &worker{
		kubelet: k, uid: pod.UID, wake: make(chan struct{}, 1), pod: pod, static: FromManifest(pod),
		began: time.Now(), backoff: remembered(pod), waiting: map[string]*waiting{}, ran: pod.Status.StartTime != nil,
	}
}

// add takes note of a pod that the API server has, and that is the kubelet's own copy.
func (k *Kubelet) add(ctx context.Context, pod *corev1.Pod, initial bool) {
	if k.mirrored(pod) {
		return
	}
	if _, claims := pod.Annotations[sourceAnnotation]; claims { // to be from a manifest: who may write pods could take others' places so
		pod.Annotations[sourceAnnotation] = "api"
	}
	if restorer, ok := k.config.Runtime.(Restorer); ok && initial {
		restorer.Restore(pod)
	}
	k.update(ctx, pod)
}

// update takes note of a pod that is new or has changed.
func (k *Kubelet) update(ctx context.Context, pod *corev1.Pod) {
	if k.mirrored(pod) {
		return
	}
	k.mu.Lock()
	w := k.workers[pod.UID]
	if w == nil {
		w = newWorker(k, pod)
		k.admit(w, pod)
		k.workers[pod.UID] = w
		k.mu.Unlock()
		w.signal()
		k.running.Go(func() { w.run(ctx) })
		return
	}
	k.mu.Unlock()
	w.mu.Lock()
	before := w.pod
	w.pod = pod
	if pod.DeletionTimestamp != nil {
		w.giveUpLocked()
	}
	w.mu.Unlock()
	if !sameButStatus(before, pod) || !k.status.current(pod) {
		w.signal()
	}
}

// sameButStatus compares what a worker looks at, all but the status.
func sameButStatus(a, b *corev1.Pod) bool {
	return a.Generation == b.Generation && a.Generation != 0 && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		deletionGrace(a) == deletionGrace(b) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

func (k *Kubelet) remove(pod *corev1.Pod) {
	if k.unmirrored(pod) {
		return
	}
	k.mu.Lock()
	w := k.workers[pod.UID]
	k.mu.Unlock()
	if w != nil {
		w.forget()
	}
}

// forget notes that the pod is gone.
func (w *worker) forget() {
	w.mu.Lock()
	w.gone = true
	w.giveUpLocked()
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

// lookAtVolumes makes the worker of a pod look again, because its volumes may now be something else.
func (k *Kubelet) lookAtVolumes(uid types.UID) {
	k.mu.Lock()
	w := k.workers[uid]
	k.mu.Unlock()
	if w != nil {
		w.remount.Store(true)
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

// holdable returns a context for what may be given up when the pod is to end: pulls, hooks, waits for volumes.
func (w *worker) holdable(ctx context.Context) (context.Context, context.CancelFunc) {
	hold, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giveUp = cancel
	if w.gone || w.eviction != nil || w.pod.DeletionTimestamp != nil {
		cancel()
	}
	return hold, func() {
		cancel()
		w.mu.Lock()
		w.giveUp = nil
		w.mu.Unlock()
	}
}

func (w *worker) giveUpLocked() {
	if w.giveUp != nil {
		w.giveUp()
	}
}

func (w *worker) run(ctx context.Context) {
	defer w.leave(ctx)
	w.displace(ctx)
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	for operation := operationCreate; ; operation = operationSync {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-again.C:
		}
		pod, gone := w.newest()
		if gone || pod.DeletionTimestamp != nil {
			operation = operationKill
		}
		began := time.Now()
		wait, done := w.sync(ctx, pod, gone)
		w.kubelet.metrics.round(operation, began)
		if done {
			return
		}
		if wait <= 0 {
			wait = resyncPeriod
		}
		again.Reset(wait)
	}
}

// leave forgets a pod whose worker has ended.
func (w *worker) leave(ctx context.Context) {
	k := w.kubelet
	k.mu.Lock()
	delete(k.workers, w.uid)
	k.mu.Unlock()
	k.status.forget(w.uid)
	if k.prober != nil {
		k.prober.forget(w.uid)
	}
	w.evictionDone()
	if w.static {
		k.staticEnded(ctx)
	} else {
		k.addAgain(ctx, w)
	}
}

// addAgain takes note of a pod once more whose worker was told that it is gone, and which is there.
func (k *Kubelet) addAgain(ctx context.Context, w *worker) {
	pod, _ := w.newest()
	object, there := k.pods.Indexer().Get(pod.Namespace, pod.Name)
	if !there || ctx.Err() != nil {
		return
	}
	if again, err := informer.As[*corev1.Pod](object); err == nil && again.UID == w.uid {
		k.add(ctx, again, false)
	}
}
