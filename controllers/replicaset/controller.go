// Package replicaset keeps as many pods of a template running as a ReplicaSet says.
//
// It owns pods through their controller reference: pods that match the selector and belong to nobody are adopted, owned ones
// that no longer match are let go. It never acts on a cache that does not show its own last creations (package barrier), and
// does not count pods that it has just deleted, so that a slow watch makes it neither create nor delete too many.
package replicaset

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"vigil/controllers/internal/barrier"
	"vigil/informer"
	"vigil/informer/work"
)

const (
	workers = 5
	// burst is the most pods created or deleted in one go.
	burst = 500
	// recheck is when a set is looked at again that waits for its own writes, should no event come.
	recheck = time.Second
	// controllerIndex finds pods and sets by the uid of their controller.
	controllerIndex = "controller-uid"
)

// Kind is the kind that pods' controller references name.
var Kind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// Config says what the controller works with. Client, Informers and Recorder are needed.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Recorder  record.EventRecorder
	Logger    *slog.Logger
	Metrics   *work.Metrics
}

// Controller reconciles ReplicaSets.
type Controller struct {
	client   kubernetes.Interface
	recorder record.EventRecorder
	logger   *slog.Logger
	queue    *work.Queue
	wrote    *barrier.Barrier

	setInformer, podInformer *informer.Informer
	sets                     informer.Lister[*appsv1.ReplicaSet]
	pods                     informer.Lister[*corev1.Pod]

	mu sync.Mutex
	// deleted has the pods that were deleted and that the cache may still show as wanted, by set.
	deleted map[types.UID]map[types.UID]struct{}
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	pods, sets := informer.ResourceOf[*corev1.Pod](), informer.ResourceOf[*appsv1.ReplicaSet]()
	pods.DropManagedFields, sets.DropManagedFields = true, true
	c := &Controller{
		client:      config.Client,
		recorder:    config.Recorder,
		logger:      config.Logger,
		queue:       work.New(work.Config{Name: "replicaset", Logger: config.Logger, Metrics: config.Metrics}),
		wrote:       barrier.New(),
		setInformer: config.Informers.Informer(sets),
		podInformer: config.Informers.Informer(pods),
		deleted:     map[types.UID]map[types.UID]struct{}{},
	}
	c.sets, c.pods = informer.ListerFor[*appsv1.ReplicaSet](c.setInformer), informer.ListerFor[*corev1.Pod](c.podInformer)
	c.podInformer.AddIndex(controllerIndex, informer.ByControllerUID)
	c.setInformer.AddIndex(controllerIndex, informer.ByControllerUID)
	c.setInformer.AddHandler(informer.Keys(c.queue.Add))
	c.setInformer.AddHandler(informer.EventHandler{OnDelete: func(o *informer.Object, _ bool) { c.forget(o.UID()) }})
	c.podInformer.AddHandler(informer.ControllerKeys(Kind.Group, Kind.Kind, c.queue.Add))
	c.podInformer.AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { c.orphan(o) },
		OnUpdate: func(_, o *informer.Object) { c.orphan(o) },
	})
	return c
}

// orphan wakes the sets that may adopt a pod without controller.
func (c *Controller) orphan(o *informer.Object) {
	if _, owned := o.Controller(); owned {
		return
	}
	sets, err := c.sets.List(o.Namespace(), nil)
	if err != nil {
		c.logger.Error("cannot read replica sets", "namespace", o.Namespace(), "error", err)
		return
	}
	for _, set := range sets {
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(o.Labels()) {
			c.queue.Add(types.NamespacedName{Namespace: set.Namespace, Name: set.Name})
		}
	}
}

// Run reconciles until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{c.setInformer, c.podInformer} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return c.queue.Run(ctx, workers, c.reconcile)
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	// What the cache must show is compared with what it had before the pods are read from it.
	version := c.podInformer.ResourceVersion()
	set, err := c.sets.Get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	current := c.wrote.Passed(set.UID, version)
	pods, err := c.claim(ctx, set)
	if err != nil {
		return 0, fmt.Errorf("claim pods: %w", err)
	}
	active, terminating := c.split(set, pods)
	var failed error
	var wait time.Duration
	switch {
	case set.DeletionTimestamp != nil:
	case !current:
		wait = recheck
	default:
		failed = c.scale(ctx, set, active)
	}
	unavailable, err := c.updateStatus(ctx, set, active, terminating, failed)
	if failed != nil {
		return 0, fmt.Errorf("scale: %w", failed)
	}
	if unavailable > 0 && (wait == 0 || unavailable < wait) {
		wait = unavailable
	}
	return wait, err
}

// split tells the pods that count from those that are on their way out. Finished pods are neither.
func (c *Controller) split(set *appsv1.ReplicaSet, pods []*corev1.Pod) (active []*corev1.Pod, terminating int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	deleted := c.deleted[set.UID]
	seen := map[types.UID]struct{}{}
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if _, ours := deleted[pod.UID]; ours && pod.DeletionTimestamp == nil {
			seen[pod.UID] = struct{}{} // the cache does not show it yet
			terminating++
			continue
		}
		if pod.DeletionTimestamp != nil {
			terminating++
			continue
		}
		active = append(active, pod)
	}
	for uid := range deleted {
		if _, still := seen[uid]; !still {
			delete(deleted, uid)
		}
	}
	if len(deleted) == 0 {
		delete(c.deleted, set.UID)
	}
	return active, terminating
}

func (c *Controller) noteDeleted(set, pod types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deleted[set] == nil {
		c.deleted[set] = map[types.UID]struct{}{}
	}
	c.deleted[set][pod] = struct{}{}
}

func (c *Controller) forget(set types.UID) {
	c.wrote.Forget(set)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.deleted, set)
}
