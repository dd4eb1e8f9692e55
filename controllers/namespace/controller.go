// Package namespace empties namespaces that are being deleted, and then lets them go.
//
// A DELETE makes a namespace Terminating, from when on the API server lets nothing be created in it; spec.finalizers holds it.
// This controller asks the server which namespaced resources there are, deletes the objects of each (pods first, so that
// what they use is there until they have ended: KEP-5080), waits for those that end gracefully or have finalizers,
// and takes itself out of spec.finalizers when a list of every resource has come back empty. What it waits for stands in the
// namespace's conditions.
//
// Nothing is taken from a cache but the hint to look: whether a namespace is empty is decided by consistent lists. Another API
// server may allow a creation until it has heard of the deletion, so a namespace is only let go when its deletion is older
// than [Config.Settle].
//
// Follows upstream's pkg/controller/namespace.
package namespace

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"vigil/informer"
	"vigil/informer/workqueue"
)

const (
	workers = 10
	// defaultSettle is Config.Settle's default. Servers hear of each other's writes within milliseconds.
	defaultSettle = 500 * time.Millisecond
	// recheck is how often a namespace is looked at that waits for finalizers, of whose end no event tells.
	recheck = 2 * time.Second
)

// Config says what the controller works with. Client, Metadata and Informers are needed.
type Config struct {
	Client    kubernetes.Interface
	Metadata  metadata.Interface
	Informers *informer.Factory // run by the caller
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics

	// Settle is how long ago the deletion must have been when a namespace is let go, which bounds how far the API servers
	// may be behind each other. Default: 500 ms. The time stamp counts in seconds, so it takes up to one longer.
	Settle time.Duration
}

// Controller empties namespaces.
type Controller struct {
	client   kubernetes.Interface
	metadata metadata.Interface
	settle   time.Duration
	queue    *workqueue.Queue
	logger   *slog.Logger

	namespaces, pods *informer.Informer
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Settle == 0 {
		config.Settle = defaultSettle
	}
	namespaces, pods := informer.ResourceOf[*corev1.Namespace](), informer.ResourceOf[*corev1.Pod]()
	namespaces.DropManagedFields, pods.DropManagedFields = true, true
	c := &Controller{
		client:     config.Client,
		metadata:   config.Metadata,
		settle:     config.Settle,
		logger:     config.Logger,
		queue:      workqueue.New(workqueue.Config{Name: "namespace", Logger: config.Logger, Metrics: config.Metrics}),
		namespaces: config.Informers.Informer(namespaces),
		pods:       config.Informers.Informer(pods),
	}
	c.namespaces.AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { c.look(o) },
		OnUpdate: func(_, o *informer.Object) { c.look(o) },
	})
	c.pods.AddHandler(informer.EventHandler{OnDelete: func(o *informer.Object, _ bool) { c.podGone(o.Namespace()) }})
	return c
}

// deletedAt finds metadata.deletionTimestamp: a message, of which only matters that it is there.
var deletedAt = informer.ByField(func(ns *corev1.Namespace) []string {
	if ns.DeletionTimestamp == nil {
		return nil
	}
	return []string{ns.DeletionTimestamp.String()}
}, 1, 9)

func terminating(o *informer.Object) bool { return len(deletedAt(nil, o)) > 0 }

func (c *Controller) look(o *informer.Object) {
	if terminating(o) {
		c.queue.Add(o.NamespacedName())
	}
}

// podGone looks at a terminating namespace again when its last pod has gone.
func (c *Controller) podGone(namespace string) {
	o, ok := c.namespaces.Indexer().Get("", namespace)
	if ok && terminating(o) && len(c.pods.Indexer().List(namespace)) == 0 {
		c.queue.Add(o.NamespacedName())
	}
}

// Run empties namespaces until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{c.namespaces, c.pods} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return c.queue.Run(ctx, workers, c.reconcile)
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	ns, err := c.client.CoreV1().Namespaces().Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return 0, nil
	}
	left := c.empty(ctx, ns.Name, ns.DeletionTimestamp.Time)
	if left.nothing() {
		// The time stamp is the deletion's time without its fraction.
		if wait := time.Until(ns.DeletionTimestamp.Add(time.Second + c.settle)); wait > 0 {
			return wait, nil
		}
		if ns, err = c.report(ctx, ns, left, len(ns.Finalizers)+len(ns.Spec.Finalizers) > 1); err == nil {
			err = c.finalize(ctx, ns)
		}
		return again(err)
	}
	if _, err := c.report(ctx, ns, left, true); err != nil {
		return again(err)
	}
	return left.wait(), errors.Join(left.all()...)
}

// again makes a conflict a reason to look again at once, and a namespace that has gone none to complain.
func again(err error) (time.Duration, error) {
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case apierrors.IsConflict(err):
		return time.Millisecond, nil
	}
	return 0, err
}

// finalize takes this controller out of spec.finalizers. The server deletes the namespace when nothing else holds it.
func (c *Controller) finalize(ctx context.Context, ns *corev1.Namespace) error {
	ns = ns.DeepCopy()
	ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	_, err := c.client.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{})
	return err
}
