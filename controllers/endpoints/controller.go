// Package endpoints keeps an Endpoints object for every Service that has a selector: the addresses of the pods it selects, ready and
// not, with the ports that the Service's ports mean on them. Endpoints of Services without a selector belong to whoever made them, as
// default/kubernetes does to the API server.
//
// Endpoints are the older form of EndpointSlices; proxies read the slices, so what is here serves older clients. Follows upstream's
// pkg/controller/endpoint.
package endpoints

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"vigil/informer"
	"vigil/informer/workqueue"
)

const (
	workers = 5
	// recheck is when a Service is looked at again whose Endpoints somebody else has written meanwhile.
	recheck = 100 * time.Millisecond

	managedBy     = "endpoints.kubernetes.io/managed-by"
	managedByThis = "endpoint-controller"
)

// Config says what the controller works with. Client, Informers and Recorder are needed.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Recorder  record.EventRecorder
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics
}

// Controller keeps Endpoints.
type Controller struct {
	client   kubernetes.Interface
	recorder record.EventRecorder
	logger   *slog.Logger
	queue    *workqueue.Queue

	selectors *selectors
	triggers  *triggers

	services  informer.Lister[*corev1.Service]
	pods      informer.Lister[*corev1.Pod]
	endpoints informer.Lister[*corev1.Endpoints]

	mu   sync.Mutex
	gone map[types.NamespacedName]struct{} // Services that were deleted and whose Endpoints are to go
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	services, pods, endpoints := informer.ResourceOf[*corev1.Service](), informer.ResourceOf[*corev1.Pod](), informer.ResourceOf[*corev1.Endpoints]()
	services.DropManagedFields, pods.DropManagedFields, endpoints.DropManagedFields = true, true, true
	c := &Controller{
		client:    config.Client,
		recorder:  config.Recorder,
		logger:    config.Logger,
		queue:     workqueue.New(workqueue.Config{Name: "endpoint", Logger: config.Logger, Metrics: config.Metrics}),
		selectors: newSelectors(),
		triggers:  newTriggers(),
		gone:      map[types.NamespacedName]struct{}{},
		services:  informer.ListerFor[*corev1.Service](config.Informers.Informer(services)),
		pods:      informer.ListerFor[*corev1.Pod](config.Informers.Informer(pods)),
		endpoints: informer.ListerFor[*corev1.Endpoints](config.Informers.Informer(endpoints)),
	}
	c.services.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { c.service(o) },
		OnUpdate: func(_, o *informer.Object) { c.service(o) },
		OnDelete: func(o *informer.Object, _ bool) {
			c.selectors.forget(o.NamespacedName())
			c.mu.Lock()
			c.gone[o.NamespacedName()] = struct{}{}
			c.mu.Unlock()
			c.queue.Add(o.NamespacedName())
		},
	})
	c.pods.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { c.selectors.matching(o, c.queue.Add) },
		OnUpdate: c.podChanged,
		OnDelete: func(o *informer.Object, _ bool) { c.selectors.matching(o, c.queue.Add) },
	})
	c.endpoints.Informer().AddHandler(informer.Keys(c.queue.Add))
	return c
}

func (c *Controller) service(o *informer.Object) {
	service, err := informer.As[*corev1.Service](o)
	if err != nil {
		c.logger.Error("the controller cannot decode a service; its endpoints stay as they are", "service", o.Key(), "error", err)
		return
	}
	c.selectors.set(o.NamespacedName(), service.Spec.Selector)
	c.queue.Add(o.NamespacedName())
}

// podChanged wakes the Services that select a pod, or did, when something changed that endpoints show. Most updates of pods
// are of pods that no Service selects, and are not decoded.
func (c *Controller) podChanged(old, o *informer.Object) {
	touched := map[types.NamespacedName]struct{}{}
	c.selectors.matching(o, func(s types.NamespacedName) { touched[s] = struct{}{} })
	after := len(touched)
	c.selectors.matching(old, func(s types.NamespacedName) { touched[s] = struct{}{} })
	if len(touched) == 0 {
		return
	}
	relabelled := len(touched) != after || !maps.Equal(old.Labels().Map(), o.Labels().Map())
	if !relabelled {
		was, err := informer.As[*corev1.Pod](old)
		if err == nil {
			var is *corev1.Pod
			if is, err = informer.As[*corev1.Pod](o); err == nil && sameEndpoint(was, is) {
				return
			}
		}
		if err != nil {
			c.logger.Error("the controller cannot decode a pod; endpoints show it as it was before", "pod", o.Key(), "error", err)
			return
		}
	}
	for s := range touched {
		c.queue.Add(s)
	}
}

// Run keeps Endpoints until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{c.services.Informer(), c.pods.Informer(), c.endpoints.Informer()} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return c.queue.Run(ctx, workers, c.reconcile)
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	service, err := c.services.Get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return 0, c.remove(ctx, key)
	}
	if err != nil {
		return 0, err
	}
	c.takeGone(key) // it has been made again
	if service.Spec.Type == corev1.ServiceTypeExternalName || len(service.Spec.Selector) == 0 {
		return 0, nil
	}
	pods, err := c.pods.List(key.Namespace, labels.Set(service.Spec.Selector).AsSelectorPreValidated())
	if err != nil {
		return 0, err
	}
	trigger := c.triggers.changed(service, pods)
	current, err := c.endpoints.Get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		current, err = nil, nil
	}
	if err != nil {
		return 0, err
	}
	next := wanted(service, pods, current)
	if current != nil && same(current, next) {
		return 0, nil
	}
	stamp(next, trigger)
	return c.write(ctx, service, current, next)
}

// remove deletes the Endpoints of a Service that is gone. Endpoints that somebody made for a Service go with it, too, but those for
// which there never was a Service stay: it may come.
func (c *Controller) remove(ctx context.Context, key types.NamespacedName) error {
	c.triggers.forget(key)
	gone := c.takeGone(key)
	current, err := c.endpoints.Get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || !gone && current.Labels[managedBy] != managedByThis {
		return err
	}
	err = c.client.CoreV1().Endpoints(key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &current.UID}})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	}
	if gone {
		c.mu.Lock()
		c.gone[key] = struct{}{}
		c.mu.Unlock()
	}
	return fmt.Errorf("delete endpoints: %w", err)
}

// takeGone says whether the Service was deleted, and forgets it.
func (c *Controller) takeGone(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, gone := c.gone[key]
	delete(c.gone, key)
	return gone
}

func (c *Controller) write(ctx context.Context, service *corev1.Service, current, next *corev1.Endpoints) (time.Duration, error) {
	var err error
	if current == nil {
		_, err = c.client.CoreV1().Endpoints(next.Namespace).Create(ctx, next, metav1.CreateOptions{})
	} else {
		_, err = c.client.CoreV1().Endpoints(next.Namespace).Update(ctx, next, metav1.UpdateOptions{})
	}
	switch {
	case err == nil:
		return 0, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsNotFound(err) && current == nil:
		return 0, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return recheck, nil // the cache is behind
	}
	if current == nil {
		c.recorder.Eventf(service, corev1.EventTypeWarning, "FailedToCreateEndpoint", "Failed to create endpoint for service %v/%v: %v", service.Namespace, service.Name, err)
	} else {
		c.recorder.Eventf(current, corev1.EventTypeWarning, "FailedToUpdateEndpoint", "Failed to update endpoint %v/%v: %v", service.Namespace, service.Name, err)
	}
	return 0, fmt.Errorf("write endpoints: %w", err)
}

// same says that what is there is what should be, apart from the time of the last change.
func same(current, next *corev1.Endpoints) bool {
	strip := func(e *corev1.Endpoints) map[string]string {
		a := maps.Clone(e.Annotations)
		delete(a, corev1.EndpointsLastChangeTriggerTime)
		return a
	}
	return apiequality.Semantic.DeepEqual(repack(current.Subsets), next.Subsets) &&
		apiequality.Semantic.DeepEqual(current.Labels, next.Labels) &&
		apiequality.Semantic.DeepEqual(strip(current), strip(next))
}
