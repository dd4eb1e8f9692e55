package deployment

import (
	"context"
	"fmt"
	"log/slog"
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
	"vigil/informer/workqueue"
)

const (
	workers         = 5
	recheck         = time.Second // for a deployment that waits for its own writes, should no event come
	controllerIndex = "controller-uid"
)

// Kind is the kind that the sets' controller references name.
var Kind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// Config says what the controller works with. Client, Informers and Recorder are needed.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Recorder  record.EventRecorder
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics
}

// Controller reconciles Deployments.
type Controller struct {
	client   kubernetes.Interface
	recorder record.EventRecorder
	logger   *slog.Logger
	queue    *workqueue.Queue
	wrote    *barrier.Barrier

	deploymentInformer, setInformer, podInformer *informer.Informer
	deployments                                  informer.Lister[*appsv1.Deployment]
	sets                                         informer.Lister[*appsv1.ReplicaSet]
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	resource := func(r informer.Resource) *informer.Informer {
		r.DropManagedFields = true
		return config.Informers.Informer(r)
	}
	c := &Controller{
		client:             config.Client,
		recorder:           config.Recorder,
		logger:             config.Logger,
		queue:              workqueue.New(workqueue.Config{Name: "deployment", Logger: config.Logger, Metrics: config.Metrics}),
		wrote:              barrier.New(),
		deploymentInformer: resource(informer.ResourceOf[*appsv1.Deployment]()),
		setInformer:        resource(informer.ResourceOf[*appsv1.ReplicaSet]()),
		podInformer:        resource(informer.ResourceOf[*corev1.Pod]()),
	}
	c.deployments = informer.ListerFor[*appsv1.Deployment](c.deploymentInformer)
	c.sets = informer.ListerFor[*appsv1.ReplicaSet](c.setInformer)
	c.setInformer.AddIndex(controllerIndex, informer.ByControllerUID)
	c.podInformer.AddIndex(controllerIndex, informer.ByControllerUID)
	c.deploymentInformer.AddHandler(informer.Keys(c.queue.Add))
	c.deploymentInformer.AddHandler(informer.EventHandler{OnDelete: func(o *informer.Object, _ bool) { c.wrote.Forget(o.UID()) }})
	c.setInformer.AddHandler(informer.ControllerKeys(Kind.Group, Kind.Kind, c.queue.Add))
	c.setInformer.AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { c.orphan(o) },
		OnUpdate: func(_, o *informer.Object) { c.orphan(o) },
	})
	// Only Recreate looks at pods: it goes on when the last old one is gone.
	c.podInformer.AddHandler(informer.EventHandler{OnDelete: func(o *informer.Object, _ bool) { c.podGone(o) }})
	return c
}

// orphan wakes the deployments that may adopt a set without controller.
func (c *Controller) orphan(o *informer.Object) {
	if _, owned := o.Controller(); owned {
		return
	}
	deployments, err := c.deployments.List(o.Namespace(), nil)
	if err != nil {
		c.logger.Error("the controller cannot decode the deployments of a namespace; none of them adopts a ReplicaSet that has lost its owner", "namespace", o.Namespace(), "error", err)
		return
	}
	for _, d := range deployments {
		selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(o.Labels()) {
			c.queue.Add(types.NamespacedName{Namespace: d.Namespace, Name: d.Name})
		}
	}
}

// podGone wakes the deployment of a pod that has been deleted.
func (c *Controller) podGone(o *informer.Object) {
	owner, ok := o.Controller()
	if !ok || owner.Kind != "ReplicaSet" {
		return
	}
	if set, ok := c.setInformer.Indexer().Get(o.Namespace(), owner.Name); ok {
		if d, ok := set.Controller(); ok && d.Kind == Kind.Kind {
			c.queue.Add(types.NamespacedName{Namespace: o.Namespace(), Name: d.Name})
		}
	}
}

// Run reconciles until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{c.deploymentInformer, c.setInformer, c.podInformer} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return c.queue.Run(ctx, workers, c.reconcile)
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	version := c.setInformer.ResourceVersion()
	d, err := c.deployments.Get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return 0, workqueue.Terminal(fmt.Errorf("selector: %w", err))
	}
	if selector.Empty() {
		c.recorder.Event(d, corev1.EventTypeWarning, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.")
		return 0, nil
	}
	if !c.wrote.Passed(d.UID, version) {
		return recheck, nil
	}
	sets, err := c.claim(ctx, d, selector)
	if err != nil {
		return 0, fmt.Errorf("claim replica sets: %w", err)
	}
	r := &rollout{c: c, d: d, sets: sets}
	if d.DeletionTimestamp != nil {
		return 0, r.writeStatus(ctx, nil)
	}
	if err := r.reportPause(ctx); err != nil {
		return 0, err
	}
	switch {
	case d.Spec.Paused, r.scaled():
		err = r.onlyScale(ctx)
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		err = r.recreate(ctx)
	default:
		err = r.roll(ctx)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// The cache was behind; what changed is on its way and comes back here.
		return recheck, nil
	}
	if err != nil {
		return 0, err
	}
	return r.wait, nil
}
