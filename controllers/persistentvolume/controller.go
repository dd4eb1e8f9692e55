package persistentvolume

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/volume"

	"vigil/informer"
	"vigil/informer/workqueue"
)

// Config says what the controller works with. Client, Informers and Recorder are needed.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Recorder  record.EventRecorder
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics
}

// Controller binds claims and volumes.
type Controller struct {
	config Config

	// queue has claims by their names, and volumes by theirs with no namespace. It has one worker: two decisions at once could give one
	// volume to two claims.
	queue *workqueue.Queue

	claims  *versions[*corev1.PersistentVolumeClaim]
	volumes *versions[*corev1.PersistentVolume]
	classes informer.Lister[*storagev1.StorageClass]
	pods    informer.Lister[*corev1.Pod]
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	claims, volumes := informer.ResourceOf[*corev1.PersistentVolumeClaim](), informer.ResourceOf[*corev1.PersistentVolume]()
	classes, pods := informer.ResourceOf[*storagev1.StorageClass](), informer.ResourceOf[*corev1.Pod]()
	for _, r := range []*informer.Resource{&claims, &volumes, &classes, &pods} {
		r.DropManagedFields = true
	}
	c := &Controller{
		config:  config,
		queue:   workqueue.New(workqueue.Config{Name: "persistentvolume", Logger: config.Logger, Metrics: config.Metrics}),
		claims:  newVersions(config.Informers.Informer(claims), func(claim *corev1.PersistentVolumeClaim) bool { return !bound(claim) }),
		volumes: newVersions(config.Informers.Informer(volumes), func(*corev1.PersistentVolume) bool { return false }),
		classes: informer.ListerFor[*storagev1.StorageClass](config.Informers.Informer(classes)),
		pods:    informer.ListerFor[*corev1.Pod](config.Informers.Informer(pods)),
	}
	c.claims.source.AddHandler(informer.Handler[*corev1.PersistentVolumeClaim]{
		OnAdd:    func(claim *corev1.PersistentVolumeClaim, _ bool) { c.claimChanged(claim) },
		OnUpdate: func(_, claim *corev1.PersistentVolumeClaim) { c.claimChanged(claim) },
		OnDelete: func(claim *corev1.PersistentVolumeClaim, _ bool) { c.claimGone(claim) },
	}.EventHandler())
	c.volumes.source.AddHandler(informer.Handler[*corev1.PersistentVolume]{
		OnAdd:    func(pv *corev1.PersistentVolume, _ bool) { c.volumeChanged(pv) },
		OnUpdate: func(_, pv *corev1.PersistentVolume) { c.volumeChanged(pv) },
		OnDelete: func(pv *corev1.PersistentVolume, _ bool) { c.volumeGone(pv) },
	}.EventHandler())
	c.classes.Informer().AddHandler(informer.Keys(c.classChanged))
	return c
}

// Run binds until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{c.claims.source, c.volumes.source, c.classes.Informer(), c.pods.Informer()} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return c.queue.Run(ctx, 1, c.reconcile)
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	if key.Namespace == "" {
		if pv, ok := c.volumes.get(key); ok {
			return 0, c.volume(ctx, pv)
		}
		return 0, nil
	}
	if claim, ok := c.claims.get(key); ok {
		return 0, c.claim(ctx, claim)
	}
	return 0, nil
}

func (c *Controller) claimChanged(claim *corev1.PersistentVolumeClaim) {
	c.claims.take(claim)
	c.queue.Add(keyOf(claim))
	if claim.Spec.VolumeName != "" {
		c.queue.Add(types.NamespacedName{Name: claim.Spec.VolumeName})
	}
}

// claimGone looks at the volumes that the claim had; one of them it may not have known.
func (c *Controller) claimGone(claim *corev1.PersistentVolumeClaim) {
	c.claims.drop(claim)
	for _, pv := range c.volumes.all() {
		if pv.Name == claim.Spec.VolumeName || volume.IsVolumeBoundToClaim(pv, claim) {
			c.queue.Add(keyOf(pv))
		}
	}
}

func (c *Controller) volumeChanged(pv *corev1.PersistentVolume) {
	c.volumes.take(pv)
	c.queue.Add(keyOf(pv))
	c.lookForClaims(pv)
}

func (c *Controller) volumeGone(pv *corev1.PersistentVolume) {
	c.volumes.drop(pv)
	c.lookForClaims(pv)
}

// lookForClaims looks at the claims that a changed volume concerns: the one it is reserved for, and those that wait for such a volume.
func (c *Controller) lookForClaims(pv *corev1.PersistentVolume) {
	if ref := pv.Spec.ClaimRef; ref != nil {
		c.queue.Add(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	}
	free := pv.Spec.ClaimRef == nil && pv.Status.Phase == corev1.VolumeAvailable
	class := volume.GetPersistentVolumeClass(pv)
	for _, claim := range c.claims.allWaiting() {
		if claim.Spec.VolumeName == pv.Name || free && claim.Spec.VolumeName == "" && volume.GetPersistentVolumeClaimClass(claim) == class {
			c.queue.Add(keyOf(claim))
		}
	}
}

// classChanged looks at the claims that wait for a class, or for any to become the default.
func (c *Controller) classChanged(class types.NamespacedName) {
	for _, claim := range c.claims.allWaiting() {
		if name := volume.GetPersistentVolumeClaimClass(claim); name == class.Name || !volume.PersistentVolumeClaimHasClass(claim) {
			c.queue.Add(keyOf(claim))
		}
	}
}

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// bound says that a claim has once been bound completely.
func bound(claim *corev1.PersistentVolumeClaim) bool {
	return metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}
