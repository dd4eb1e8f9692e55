// Package replicaset keeps as many pods of a template running as a ReplicaSet says.
//
// It owns pods through their controller reference: pods that match the selector and belong to nobody are adopted, owned ones
// that no longer match are let go. It never acts on a cache that does not show its own last creations (package barrier), and
// does not count pods that it has just deleted, so that a slow watch makes it neither create nor delete too many.
//
// A set's pods are counted as they change (tally). Only who must choose which pods to delete looks at all of them, and decodes none.
package replicaset

import (
	"bytes"
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
	"vigil/controllers/internal/podcontrol"
	"vigil/controllers/internal/podfacts"
	"vigil/informer"
	"vigil/informer/workqueue"
)

const (
	workers = 5
	// burst is the most pods created or deleted in one go.
	burst = 500
	// recheck is when a set is looked at again that waits for its own writes, should no event come.
	recheck = time.Second
	// controllerIndex finds pods and sets by the uid of their controller.
	controllerIndex = "controller-uid"
	// orphanIndex finds pods without controller by their namespace.
	orphanIndex = "without controller"
)

// Kind is the kind that pods' controller references name.
var Kind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// Config says what the controller works with. Client, Informers and Recorder are needed.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Recorder  record.EventRecorder
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics
}

// Controller reconciles ReplicaSets.
type Controller struct {
	client kubernetes.Interface
	pods   podcontrol.Control
	logger *slog.Logger
	queue  *workqueue.Queue
	wrote  *barrier.Barrier

	setInformer, podInformer *informer.Informer
	sets                     informer.Lister[*appsv1.ReplicaSet]
	tally                    *tally

	mu sync.Mutex // may be taken while the pods' indexer is locked, never the other way round
	// deleted has the pods that were deleted and that the cache may still show as wanted, by set: their keys by uid.
	deleted map[types.UID]map[types.UID]string
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	pods, sets := informer.ResourceOf[*corev1.Pod](), informer.ResourceOf[*appsv1.ReplicaSet]()
	pods.DropManagedFields, sets.DropManagedFields = true, true
	c := &Controller{
		client:      config.Client,
		pods:        podcontrol.Control{Client: config.Client, Recorder: config.Recorder},
		logger:      config.Logger,
		queue:       workqueue.New(workqueue.Config{Name: "replicaset", Logger: config.Logger, Metrics: config.Metrics}),
		wrote:       barrier.New(),
		setInformer: config.Informers.Informer(sets),
		podInformer: config.Informers.Informer(pods),
		tally:       newTally(),
		deleted:     map[types.UID]map[types.UID]string{},
	}
	c.sets = informer.ListerFor[*appsv1.ReplicaSet](c.setInformer)
	c.podInformer.AddAggregate(c.tally)
	c.podInformer.AddIndex(controllerIndex, informer.ByControllerUID)
	c.podInformer.AddIndex(orphanIndex, func(dst []string, o *informer.Object) []string {
		if o.ControllerUID() == "" {
			dst = append(dst, o.Namespace())
		}
		return dst
	})
	c.setInformer.AddIndex(controllerIndex, informer.ByControllerUID)
	c.setInformer.AddHandler(informer.Keys(c.queue.Add))
	c.setInformer.AddHandler(informer.EventHandler{OnDelete: func(o *informer.Object, _ bool) { c.forget(o.UID()) }})
	c.podInformer.AddHandler(informer.ControllerKeys(Kind.Group, Kind.Kind, c.queue.Add))
	c.podInformer.AddHandler(informer.EventHandler{
		OnAdd: func(o *informer.Object, _ bool) { c.orphan(o) },
		OnUpdate: func(old, o *informer.Object) {
			if old.ControllerUID() != "" || !bytes.Equal(old.AppendLabels(nil), o.AppendLabels(nil)) {
				c.orphan(o)
			}
		},
	})
	return c
}

// orphan wakes the sets that may adopt a pod without controller.
func (c *Controller) orphan(o *informer.Object) {
	if o.ControllerUID() != "" {
		return
	}
	sets, err := c.sets.List(o.Namespace(), nil)
	if err != nil {
		c.logger.Error("the controller cannot decode the ReplicaSets of a namespace; none of them adopts a pod that has lost its owner", "namespace", o.Namespace(), "error", err)
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
	by, err := counted(set)
	if err != nil {
		return 0, err
	}
	has, err := c.claim(ctx, set, by, time.Now())
	if err != nil {
		return 0, fmt.Errorf("claim pods: %w", err)
	}
	var failed error
	var wait time.Duration
	switch {
	case set.DeletionTimestamp != nil:
	case !current:
		wait = recheck
	default:
		failed = c.scale(ctx, set, by, has)
	}
	again, err := c.updateStatus(ctx, set, has, failed)
	if failed != nil {
		return 0, fmt.Errorf("scale: %w", failed)
	}
	if again > 0 && (wait == 0 || again < wait) {
		wait = again
	}
	return wait, err
}

// stillShown returns the pods of a set that were deleted and that the cache shows as if they were not, and forgets the others.
func (c *Controller) stillShown(v informer.View, set types.UID) (shown []*informer.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	deleted := c.deleted[set]
	for uid, key := range deleted {
		o, ok := v.GetByKey(key)
		if ok && o.UID() == uid {
			if state, err := podfacts.StateOf(o); err == nil && state.Active() {
				shown = append(shown, o)
				continue
			}
		}
		delete(deleted, uid)
	}
	if len(deleted) == 0 {
		delete(c.deleted, set)
	}
	return shown
}

func (c *Controller) noteDeleted(set, pod types.UID, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deleted[set] == nil {
		c.deleted[set] = map[types.UID]string{}
	}
	c.deleted[set][pod] = key
}

func (c *Controller) forget(set types.UID) {
	c.wrote.Forget(set)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.deleted, set)
}
