package attachdetach

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"vigil/controllers/internal/barrier"
	"vigil/informer"
	"vigil/informer/workqueue"
)

const workers = 4

// Config says what the controller works with. Client, Informers and Recorder are needed.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Recorder  record.EventRecorder
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics

	// UnmountWait is how long a node that is not ready keeps a volume that it says it uses but no pod of it does. 0: six minutes.
	UnmountWait time.Duration
	// AttachWait is how long an external attacher may take before pods are told. 0: two minutes.
	AttachWait time.Duration
}

// Controller attaches and detaches volumes.
type Controller struct {
	config Config

	// volumeQueue has volumes by driver (in the place of the namespace) and handle; PersistentVolumes that are gone, which have neither,
	// by their names alone.
	volumeQueue *workqueue.Queue
	nodeQueue   *workqueue.Queue // nodes whose volumesAttached may be out of date

	pods        *informer.Informer
	nodes       informer.Lister[*corev1.Node]
	volumes     informer.Lister[*corev1.PersistentVolume]
	claims      informer.Lister[*corev1.PersistentVolumeClaim]
	drivers     informer.Lister[*storagev1.CSIDriver]
	attachments informer.Lister[*storagev1.VolumeAttachment]

	wrote *barrier.Barrier // VolumeAttachments made, by volume

	mu        sync.Mutex
	progress  map[types.NamespacedName]*progress
	detaching map[string]leaving // VolumeAttachments by name
}

// progress is what is under way for a volume. It is used by the one worker that has the volume.
type progress struct {
	attaching map[string]*attempt  // by node
	unused    map[string]time.Time // by node: since when no pod there uses the volume
}

// attempt is an attachment that is waited for.
type attempt struct {
	since  time.Time          // of the VolumeAttachment, or of the last time pods were told that it takes long; zero: it is not made yet
	failed string             // the attacher's last error that pods were told
	told   map[types.UID]bool // pods that were told that another node has the volume
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.UnmountWait == 0 {
		config.UnmountWait = 6 * time.Minute
	}
	if config.AttachWait == 0 {
		config.AttachWait = 2 * time.Minute
	}
	queue := func(name string) *workqueue.Queue {
		return workqueue.New(workqueue.Config{Name: name, Logger: config.Logger, Metrics: config.Metrics})
	}
	pods, nodes := informer.ResourceOf[*corev1.Pod](), informer.ResourceOf[*corev1.Node]()
	volumes, claims := informer.ResourceOf[*corev1.PersistentVolume](), informer.ResourceOf[*corev1.PersistentVolumeClaim]()
	drivers, attachments := informer.ResourceOf[*storagev1.CSIDriver](), informer.ResourceOf[*storagev1.VolumeAttachment]()
	for _, r := range []*informer.Resource{&pods, &nodes, &volumes, &claims, &drivers, &attachments} {
		r.DropManagedFields = true
	}
	c := &Controller{
		config: config, volumeQueue: queue("attachdetach_volumes"), nodeQueue: queue("attachdetach_nodes"),
		pods:        config.Informers.Informer(pods),
		nodes:       informer.ListerFor[*corev1.Node](config.Informers.Informer(nodes)),
		volumes:     informer.ListerFor[*corev1.PersistentVolume](config.Informers.Informer(volumes)),
		claims:      informer.ListerFor[*corev1.PersistentVolumeClaim](config.Informers.Informer(claims)),
		drivers:     informer.ListerFor[*storagev1.CSIDriver](config.Informers.Informer(drivers)),
		attachments: informer.ListerFor[*storagev1.VolumeAttachment](config.Informers.Informer(attachments)),
		wrote:       barrier.New(),
		progress:    map[types.NamespacedName]*progress{}, detaching: map[string]leaving{},
	}
	c.pods.AddIndex(podsByClaim, claimsOf)
	c.pods.AddIndex(podsByNode, nodeWithClaims)
	c.volumes.Informer().AddIndex(volumesByHandle, handleOf)
	c.attachments.Informer().AddIndex(attachmentsByVolume, volumeOfAttachment)
	c.attachments.Informer().AddIndex(attachmentsByNode, nodeOfAttachment)
	c.follow()
	return c
}

// Run attaches and detaches until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{
		c.pods, c.nodes.Informer(), c.volumes.Informer(), c.claims.Informer(), c.drivers.Informer(), c.attachments.Informer(),
	} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.volumeQueue.Run(ctx, workers, c.volume) })
	group.Go(func() error { return c.nodeQueue.Run(ctx, workers, c.report) })
	return group.Wait()
}

// progressOf returns what is under way for a volume.
func (c *Controller) progressOf(key types.NamespacedName) *progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.progress[key]
	if p == nil {
		p = &progress{attaching: map[string]*attempt{}, unused: map[string]time.Time{}}
		c.progress[key] = p
	}
	return p
}

// rest forgets a volume for which nothing is under way.
func (c *Controller) rest(key types.NamespacedName, p *progress) {
	if len(p.attaching) == 0 && len(p.unused) == 0 {
		c.mu.Lock()
		delete(c.progress, key)
		c.mu.Unlock()
	}
}
