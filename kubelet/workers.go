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
	"vigil/internal/panics"
	"vigil/kubelet/manifests"
)

// resyncPeriod is how often a worker looks at its pod when nothing happens.
const resyncPeriod = time.Minute

// admitAgain is how long a pod waits whose admission panicked.
const admitAgain = 5 * time.Second

// worker brings one pod to where its spec wants it. It ends when the pod is gone from the API server and from the
// runtime, or with the kubelet. There is a goroutine only while there is something to look at: most pods just run.
type worker struct {
	kubelet *Kubelet
	uid     types.UID
	static  bool        // the pod comes from a manifest, not from the API server
	orphan  bool        // only the node knows of the pod, and not its spec
	remount atomic.Bool // volumes want to be looked at, however long they were to be waited for

	rejected atomic.Bool   // the pod was never let in
	victims  []*corev1.Pod // whom the pod was let in for, before its worker runs

	mu       sync.Mutex
	pod      *corev1.Pod // the newest the watch, or the manifest, has brought
	gone     bool        // deleted from the API server, or the manifest is gone
	eviction *eviction
	giveUp   context.CancelFunc // ends what may be given up of the round under way; nil between rounds
	hooked   map[string]bool    // IDs of containers whose preStop hook was run
	rounds   func()             // makes rounds while there is something to look at; nil: not begun, or over
	busy     bool               // rounds is running
	woken    bool               // there is something to look at
	again    *time.Timer        // wakes the worker for its next look; nil before the first

	// Used by rounds only.
	synced   bool // a round was made
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
	deleted  time.Time         // when the API server was told last that nothing of the pod is left
	cleaned  bool              // the runtime has forgotten the pod
	panicked time.Duration     // how long the worker waits after a round that panicked; 0: the last one did not
	ran      bool              // the pod has been seen running, or was there before this kubelet
}

func newWorker(k *Kubelet, pod *corev1.Pod) *worker {
	return &worker{
		kubelet: k, uid: pod.UID, pod: pod, static: FromManifest(pod),
		began: time.Now(), backoff: remembered(pod), waiting: map[string]*waiting{}, ran: pod.Status.StartTime != nil,
	}
}

// add takes note of a pod that the API server has, and that is the kubelet's own copy.
func (k *Kubelet) add(ctx context.Context, pod *corev1.Pod, initial bool) {
	if k.mirrored(pod) {
		return
	}
	if _, claims := pod.Annotations[manifests.SourceAnnotation]; claims { // to be from a manifest: who may write pods could take others' places so
		pod.Annotations[manifests.SourceAnnotation] = "api"
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
		if !panics.Do(k.config.Logger, panics.PodAdmission, func() { k.admit(w, pod) }, "namespace", pod.Namespace, "pod", pod.Name, "uid", pod.UID) {
			k.mu.Unlock()
			k.updateLater(ctx, pod)
			return
		}
		k.workers[pod.UID] = w
		k.mu.Unlock()
		w.begin(ctx)
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

// updateLater takes note of a pod once more whose admission panicked, if it is still there then.
func (k *Kubelet) updateLater(ctx context.Context, pod *corev1.Pod) {
	time.AfterFunc(admitAgain, func() {
		k.running.Go(func() {
			if FromManifest(pod) {
				k.startStatics(ctx)
			} else {
				k.addAgain(ctx, pod)
			}
		})
	})
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

// begin makes the worker look at its pod, now and whenever it is woken, until ctx ends.
func (w *worker) begin(ctx context.Context) {
	w.mu.Lock()
	w.rounds = func() { w.run(ctx) }
	w.mu.Unlock()
	w.signal()
}

// signal wakes the worker.
func (w *worker) signal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = true
	if w.busy || w.rounds == nil {
		return
	}
	w.busy = true
	w.kubelet.running.Go(w.rounds)
}

// takeSignal says whether the worker was woken since it looked last, or was asked to look again. Otherwise its goroutine is to end.
func (w *worker) takeSignal(ctx context.Context) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.woken || ctx.Err() != nil {
		w.busy = false
		return false
	}
	w.woken = false
	return true
}

// wakeIn wakes the worker after some time, instead of when it was to be woken last.
func (w *worker) wakeIn(wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.again == nil {
		w.again = time.AfterFunc(wait, w.signal)
	} else {
		w.again.Reset(wait)
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

// run makes rounds until there is nothing to look at.
func (w *worker) run(ctx context.Context) {
	w.displace(ctx)
	for w.takeSignal(ctx) {
		operation := operationSync
		pod, gone := w.newest()
		switch {
		case gone || pod.DeletionTimestamp != nil:
			operation = operationKill
		case !w.synced:
			operation = operationCreate
		}
		w.synced = true
		began := time.Now()
		wait, done := w.round(ctx, pod, gone)
		w.kubelet.metrics.round(operation, began)
		if done {
			w.leave(ctx)
			return
		}
		if wait <= 0 {
			wait = resyncPeriod
		}
		w.wakeIn(wait)
	}
}

// round is sync for a pod that may make it panic: then the worker looks again after a time that doubles with each such round in a row.
func (w *worker) round(ctx context.Context, pod *corev1.Pod, gone bool) (wait time.Duration, done bool) {
	err := w.guard(pod, func() error {
		wait, done = w.sync(ctx, pod, gone)
		return nil
	})
	if err == nil {
		w.panicked = 0
		return wait, done
	}
	w.panicked = min(max(2*w.panicked, time.Second), resyncPeriod)
	w.warn(ctx, "the kubelet could not bring a pod to where it should be; it tries again", pod, err)
	return w.panicked, false
}

// guard calls f for a pod and makes an error of a panic.
func (w *worker) guard(pod *corev1.Pod, f func() error) error {
	return panics.Try(w.kubelet.config.Logger, panics.PodWorker, f, "namespace", pod.Namespace, "pod", pod.Name, "uid", pod.UID)
}

// leave forgets a pod whose worker has ended.
func (w *worker) leave(ctx context.Context) {
	k := w.kubelet
	w.mu.Lock()
	w.rounds, w.busy = nil, false
	if w.again != nil {
		w.again.Stop()
	}
	w.mu.Unlock()
	k.mu.Lock()
	delete(k.workers, w.uid)
	k.mu.Unlock()
	k.status.forget(w.uid)
	if k.prober != nil {
		k.prober.Forget(w.uid)
	}
	w.evictionDone()
	if w.static {
		k.staticEnded(ctx)
	} else {
		pod, _ := w.newest()
		k.addAgain(ctx, pod)
	}
}

// addAgain takes note of a pod once more if the API server has it: its worker was told that it is gone, or it could not be admitted.
func (k *Kubelet) addAgain(ctx context.Context, pod *corev1.Pod) {
	object, there := k.pods.Indexer().Get(pod.Namespace, pod.Name)
	if !there || ctx.Err() != nil {
		return
	}
	if again, err := informer.As[*corev1.Pod](object); err == nil && again.UID == pod.UID {
		k.add(ctx, again, false)
	}
}
