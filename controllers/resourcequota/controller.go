package resourcequota

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"vigil/controllers/internal/served"
	"vigil/informer"
	"vigil/informer/workqueue"
	"vigil/kinds/quota"
)

const (
	workers = 5
	// fullSync is how often every quota is recalculated whatever happens.
	fullSync = 5 * time.Minute
	// verify is how long after a booking it is checked that its object is there.
	verify = 3 * time.Second
	// recount is how often objects are counted that no informer follows.
	recount = 5 * time.Second
)

// Config says what the controller works with. Client, Metadata, Discovery and Informers are needed.
type Config struct {
	Client    kubernetes.Interface
	Metadata  metadata.Interface // counts objects
	Discovery discovery.DiscoveryInterface
	Informers *informer.Factory // run by the caller
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics
}

// Controller keeps the status of all quotas.
type Controller struct {
	client    kubernetes.Interface
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface
	queue     *workqueue.Queue

	informers []*informer.Informer
	quotas    informer.Lister[*corev1.ResourceQuota]
	pods      informer.Lister[*corev1.Pod]
	services  informer.Lister[*corev1.Service]
	claims    informer.Lister[*corev1.PersistentVolumeClaim]
	devices   informer.Lister[*resourcev1.ResourceClaim] // claims on devices

	mu       sync.Mutex
	versions map[schema.GroupResource]string // of resources that are counted, as found out so far
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	quotas, pods := informer.ResourceOf[*corev1.ResourceQuota](), informer.ResourceOf[*corev1.Pod]()
	services, claims := informer.ResourceOf[*corev1.Service](), informer.ResourceOf[*corev1.PersistentVolumeClaim]()
	resourceClaims := informer.ResourceOf[*resourcev1.ResourceClaim]()
	for _, r := range []*informer.Resource{&quotas, &pods, &services, &claims, &resourceClaims} {
		r.DropManagedFields = true
	}
	c := &Controller{
		client: config.Client, metadata: config.Metadata, discovery: config.Discovery,
		queue:    workqueue.New(workqueue.Config{Name: "resourcequota", Logger: config.Logger, Metrics: config.Metrics}),
		quotas:   informer.ListerFor[*corev1.ResourceQuota](config.Informers.Informer(quotas)),
		pods:     informer.ListerFor[*corev1.Pod](config.Informers.Informer(pods)),
		services: informer.ListerFor[*corev1.Service](config.Informers.Informer(services)),
		claims:   informer.ListerFor[*corev1.PersistentVolumeClaim](config.Informers.Informer(claims)),
		devices:  informer.ListerFor[*resourcev1.ResourceClaim](config.Informers.Informer(resourceClaims)),
		versions: map[schema.GroupResource]string{},
	}
	c.informers = []*informer.Informer{c.quotas.Informer(), c.pods.Informer(), c.services.Informer(), c.claims.Informer(), c.devices.Informer()}
	c.quotas.Informer().AddHandlerWithResync(informer.EventHandler{
		OnAdd: func(o *informer.Object, _ bool) { c.queue.Add(o.NamespacedName()) },
		OnUpdate: func(old, o *informer.Object) {
			if old.ResourceVersion() == o.ResourceVersion() { // a resync
				c.queue.Add(o.NamespacedName())
				return
			}
			c.updated(old, o)
		},
	}, fullSync)
	gone := informer.EventHandler{OnDelete: func(o *informer.Object, _ bool) { c.freed(o.Namespace()) }}
	c.services.Informer().AddHandler(gone)
	c.claims.Informer().AddHandler(gone)
	c.devices.Informer().AddHandler(gone)
	gone.OnUpdate = func(old, o *informer.Object) {
		// A pod that ends uses nothing more. To see that costs decoding it, so it is not looked at where nothing is limited.
		if len(c.quotas.Informer().Indexer().List(o.Namespace())) > 0 && ended(old) != ended(o) {
			c.freed(o.Namespace())
		}
	}
	c.pods.Informer().AddHandler(gone)
	return c
}

// ended says whether a pod's containers have ended for good, or its time to do so runs.
func ended(o *informer.Object) bool {
	pod, err := informer.As[*corev1.Pod](o)
	return err == nil && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil)
}

// updated recalculates a quota at once when its limits have changed, and a little later when something was booked.
func (c *Controller) updated(old, o *informer.Object) {
	before, errBefore := informer.As[*corev1.ResourceQuota](old)
	now, err := informer.As[*corev1.ResourceQuota](o)
	if err == nil && errBefore == nil && quota.Equal(before.Spec.Hard, now.Spec.Hard) && quota.Equal(now.Spec.Hard, now.Status.Hard) {
		c.queue.AddAfter(o.NamespacedName(), verify)
		return
	}
	c.queue.Add(o.NamespacedName())
}

// freed recalculates the quotas of a namespace in which something has gone.
func (c *Controller) freed(namespace string) {
	for _, o := range c.quotas.Informer().Indexer().List(namespace) {
		c.queue.Add(o.NamespacedName())
	}
}

// Run keeps the quotas until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for _, i := range c.informers {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return c.queue.Run(ctx, workers, c.reconcile)
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	q, err := c.quotas.Get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	used, counted, err := c.usage(ctx, q)
	if err != nil {
		return 0, err
	}
	again := time.Duration(0)
	if counted {
		again = recount
	}
	if quota.Equal(q.Spec.Hard, q.Status.Hard) && quota.Equal(used, q.Status.Used) {
		return again, nil
	}
	q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: used}
	stored, err := c.client.CoreV1().ResourceQuotas(q.Namespace).UpdateStatus(ctx, q, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case apierrors.IsConflict(err):
		return 50 * time.Millisecond, nil // something was booked
	case err != nil:
		return 0, fmt.Errorf("update status of resource quota %s: %w", key, err)
	case !quota.Equal(stored.Status.Used, used):
		return verify, nil // the server knows of objects that are on their way
	}
	return again, nil
}

// usage adds up what the objects use of what a quota limits. counted says that some are only counted, without informers.
func (c *Controller) usage(ctx context.Context, q *corev1.ResourceQuota) (used corev1.ResourceList, counted bool, err error) {
	names := quota.Names(q.Spec.Hard)
	used = corev1.ResourceList{}
	now := time.Now()
	sum := func(e quota.Evaluator, each func(func(obj object) error) error) error {
		mine := e.Matching(names)
		if len(mine) == 0 {
			return nil
		}
		total := quota.None(mine)
		err := each(func(obj object) error {
			if e.InScopes(q, obj) {
				total = quota.Add(total, quota.Only(e.Usage(obj, now), mine))
			}
			return nil
		})
		used = quota.Add(used, total)
		return err
	}
	if err = sum(quota.For(pods), eachOf(c.pods, q.Namespace)); err != nil {
		return nil, false, err
	}
	if err = sum(quota.For(services), eachOf(c.services, q.Namespace)); err != nil {
		return nil, false, err
	}
	if err = sum(quota.For(claims), eachOf(c.claims, q.Namespace)); err != nil {
		return nil, false, err
	}
	if err = sum(quota.For(resourceClaims), eachOf(c.devices, q.Namespace)); err != nil {
		return nil, false, err
	}
	for _, name := range names {
		if _, ok := used[name]; ok {
			continue
		}
		resource, ok := quota.Counted(name)
		if !ok || len(quota.Scopes(q)) > 0 {
			continue
		}
		n, err := c.count(ctx, resource, q.Namespace)
		if err != nil {
			return nil, false, err
		}
		used[name] = *quota.Number(n)
		counted = true
	}
	return used, counted, nil
}

// The resources that are measured one by one.
var (
	pods     = schema.GroupResource{Resource: "pods"}
	services = schema.GroupResource{Resource: "services"}
	claims   = schema.GroupResource{Resource: "persistentvolumeclaims"}

	resourceClaims = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}
)

// count asks the server how many objects of a resource there are. Of resources that it does not have there are none.
func (c *Controller) count(ctx context.Context, resource schema.GroupResource, namespace string) (int64, error) {
	version, err := c.version(ctx, resource)
	if err != nil || version == "" {
		return 0, err
	}
	list, err := c.metadata.Resource(resource.WithVersion(version)).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsNotFound(err):
		c.mu.Lock()
		delete(c.versions, resource)
		c.mu.Unlock()
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("count %s in %s: %w", resource, namespace, err)
	}
	n := int64(len(list.Items))
	if more := list.RemainingItemCount; more != nil {
		n += *more
	}
	return n, nil
}

// version finds out in which version a resource is served, "" when in none.
func (c *Controller) version(ctx context.Context, resource schema.GroupResource) (string, error) {
	if resource.Group == "" {
		return "v1", nil
	}
	c.mu.Lock()
	version, ok := c.versions[resource]
	c.mu.Unlock()
	if ok {
		return version, nil
	}
	resources, err := served.Discover(ctx, c.discovery)
	if err != nil {
		return "", err
	}
	for _, r := range resources.Preferred {
		if strings.EqualFold(r.GVR.Resource, resource.Resource) && r.GVR.Group == resource.Group && r.Can("list") {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.versions[resource] = r.GVR.Version
			return r.GVR.Version, nil
		}
	}
	return "", nil
}
