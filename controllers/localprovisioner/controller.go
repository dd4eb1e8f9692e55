package localprovisioner

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/volume"

	"vigil/informer"
	"vigil/informer/workqueue"
	"vigil/internal/localvolume"
)

const workers = 2

// Config says what the controller works with. Client, Informers and Recorder are needed.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Recorder  record.EventRecorder
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics
}

// Controller makes and deletes local volumes.
type Controller struct {
	config Config

	claimQueue *workqueue.Queue
	nodeQueue  *workqueue.Queue // nodes with volumes that are to be deleted

	claims  informer.Lister[*corev1.PersistentVolumeClaim]
	volumes informer.Lister[*corev1.PersistentVolume]
	classes informer.Lister[*storagev1.StorageClass]
	nodes   informer.Lister[*corev1.Node]
}

// byNode is the index of this provisioner's volumes by the names of their nodes.
const byNode = "local volumes by node"

func nodeOf(dst []string, o *informer.Object) []string {
	if node, ok := o.Annotation(localvolume.NodeAnnotation); ok {
		if by, _ := o.Annotation(volume.AnnDynamicallyProvisioned); by == localvolume.Provisioner {
			return append(dst, node)
		}
	}
	return dst
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	queue := func(name string) *workqueue.Queue {
		return workqueue.New(workqueue.Config{Name: name, Logger: config.Logger, Metrics: config.Metrics})
	}
	claims, volumes := informer.ResourceOf[*corev1.PersistentVolumeClaim](), informer.ResourceOf[*corev1.PersistentVolume]()
	classes, nodes := informer.ResourceOf[*storagev1.StorageClass](), informer.ResourceOf[*corev1.Node]()
	for _, r := range []*informer.Resource{&claims, &volumes, &classes, &nodes} {
		r.DropManagedFields = true
	}
	c := &Controller{
		config: config, claimQueue: queue("localprovisioner_claims"), nodeQueue: queue("localprovisioner_nodes"),
		claims:  informer.ListerFor[*corev1.PersistentVolumeClaim](config.Informers.Informer(claims)),
		volumes: informer.ListerFor[*corev1.PersistentVolume](config.Informers.Informer(volumes)),
		classes: informer.ListerFor[*storagev1.StorageClass](config.Informers.Informer(classes)),
		nodes:   informer.ListerFor[*corev1.Node](config.Informers.Informer(nodes)),
	}
	c.volumes.Informer().AddIndex(byNode, nodeOf)
	ours := func(o *informer.Object) {
		if by, _ := o.Annotation(volume.AnnStorageProvisioner); by == localvolume.Provisioner {
			c.claimQueue.Add(o.NamespacedName())
		}
	}
	c.claims.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { ours(o) },
		OnUpdate: func(_, o *informer.Object) { ours(o) },
	})
	changed := func(o *informer.Object) {
		for _, node := range nodeOf(nil, o) {
			c.nodeQueue.Add(types.NamespacedName{Name: node})
		}
	}
	c.volumes.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { changed(o) },
		OnUpdate: func(_, o *informer.Object) { changed(o) },
		OnDelete: func(o *informer.Object, _ bool) { changed(o) },
	})
	c.nodes.Informer().AddHandler(informer.EventHandler{
		OnAdd: func(o *informer.Object, _ bool) { c.nodeQueue.Add(o.NamespacedName()) },
		OnUpdate: func(old, o *informer.Object) {
			was, _ := old.Annotation(localvolume.RemovedAnnotation)
			if is, _ := o.Annotation(localvolume.RemovedAnnotation); is != was {
				c.nodeQueue.Add(o.NamespacedName())
			}
		},
		OnDelete: func(o *informer.Object, _ bool) { c.nodeQueue.Add(o.NamespacedName()) },
	})
	return c
}

// Run makes and deletes volumes until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{c.claims.Informer(), c.volumes.Informer(), c.classes.Informer(), c.nodes.Informer()} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.claimQueue.Run(ctx, workers, c.claim) })
	group.Go(func() error { return c.nodeQueue.Run(ctx, workers, c.node) })
	return group.Wait()
}
