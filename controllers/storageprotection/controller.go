package storageprotection

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/informer"
	"vigil/informer/workqueue"
)

const workers = 2

// The finalizers.
const (
	claimFinalizer  = "kubernetes.io/pvc-protection"
	volumeFinalizer = "kubernetes.io/pv-protection"
	classFinalizer  = "kubernetes.io/vac-protection"
)

// Config says what the controllers work with. The clients are those of the controllers' own identities; they and Informers are
// needed.
type Config struct {
	Claims, Volumes, Classes kubernetes.Interface
	Informers                *informer.Factory // run by the caller
	Logger                   *slog.Logger
	Metrics                  *workqueue.Metrics
}

// Controller protects what is in use.
type Controller struct {
	config Config

	claimQueue, volumeQueue, classQueue *workqueue.Queue

	pods    *informer.Informer
	claims  informer.Lister[*corev1.PersistentVolumeClaim]
	volumes informer.Lister[*corev1.PersistentVolume]
	classes informer.Lister[*storagev1.VolumeAttributesClass]
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	queue := func(name string) *workqueue.Queue {
		return workqueue.New(workqueue.Config{Name: name, Logger: config.Logger, Metrics: config.Metrics})
	}
	pods, claims := informer.ResourceOf[*corev1.Pod](), informer.ResourceOf[*corev1.PersistentVolumeClaim]()
	volumes, classes := informer.ResourceOf[*corev1.PersistentVolume](), informer.ResourceOf[*storagev1.VolumeAttributesClass]()
	for _, r := range []*informer.Resource{&pods, &claims, &volumes, &classes} {
		r.DropManagedFields = true
	}
	c := &Controller{
		config:     config,
		claimQueue: queue("pvcprotection"), volumeQueue: queue("pvprotection"), classQueue: queue("vacprotection"),
		pods:    config.Informers.Informer(pods),
		claims:  informer.ListerFor[*corev1.PersistentVolumeClaim](config.Informers.Informer(claims)),
		volumes: informer.ListerFor[*corev1.PersistentVolume](config.Informers.Informer(volumes)),
		classes: informer.ListerFor[*storagev1.VolumeAttributesClass](config.Informers.Informer(classes)),
	}
	c.claims.Informer().AddHandler(informer.Keys(c.claimQueue.Add))
	c.volumes.Informer().AddHandler(informer.Keys(c.volumeQueue.Add))
	c.classes.Informer().AddHandler(informer.Keys(c.classQueue.Add))
	c.pods.AddHandler(informer.EventHandler{OnDelete: func(o *informer.Object, _ bool) { c.released(o) }})
	mayFree := informer.EventHandler{
		OnUpdate: func(_, _ *informer.Object) { c.recheckClasses() },
		OnDelete: func(*informer.Object, bool) { c.recheckClasses() },
	}
	c.claims.Informer().AddHandler(mayFree)
	c.volumes.Informer().AddHandler(mayFree)
	return c
}

// released looks at the claims of a pod that has gone.
func (c *Controller) released(o *informer.Object) {
	if len(c.claims.Informer().Indexer().List(o.Namespace())) == 0 {
		return // most pods have none: do not decode them
	}
	pod, err := informer.As[*corev1.Pod](o)
	if err != nil {
		return
	}
	for _, name := range claimsOf(pod) {
		c.claimQueue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: name})
	}
}

// recheckClasses looks at all classes; there are few.
func (c *Controller) recheckClasses() {
	for _, o := range c.classes.Informer().Indexer().List("") {
		c.classQueue.Add(o.NamespacedName())
	}
}

// Run protects until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{c.pods, c.claims.Informer(), c.volumes.Informer(), c.classes.Informer()} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.claimQueue.Run(ctx, workers, c.claim) })
	group.Go(func() error { return c.volumeQueue.Run(ctx, workers, c.volume) })
	group.Go(func() error { return c.classQueue.Run(ctx, workers, c.class) })
	return group.Wait()
}

// protect is what has to be done about the finalizer of an object; inUse is asked only when it is being deleted.
func protect(obj metav1.Object, finalizer string, inUse func() (bool, error), update func() error) error {
	has := slices.Contains(obj.GetFinalizers(), finalizer)
	switch deleting := obj.GetDeletionTimestamp() != nil; {
	case deleting && has:
		if used, err := inUse(); err != nil || used {
			return err
		}
		obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == finalizer }))
	case !deleting && !has:
		obj.SetFinalizers(append(obj.GetFinalizers(), finalizer))
	default:
		return nil
	}
	if err := update(); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update the finalizers of %s: %w", obj.GetName(), err)
	}
	return nil
}

func (c *Controller) claim(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	claim, err := c.claims.Get(key.Namespace, key.Name)
	if err != nil {
		return 0, ignoreMissing(err)
	}
	return 0, protect(claim, claimFinalizer,
		func() (bool, error) { return c.claimed(ctx, claim) },
		func() error {
			_, err := c.config.Claims.CoreV1().PersistentVolumeClaims(key.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
			return err
		})
}

// claimed says whether a pod with a node uses a claim. Before it says no it asks the server: the pod may be newer than the cache.
func (c *Controller) claimed(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	for _, o := range c.pods.Indexer().List(claim.Namespace) {
		pod, err := informer.As[*corev1.Pod](o)
		if err != nil {
			return false, err
		}
		if uses(pod, claim.Name) {
			return true, nil
		}
	}
	list, err := c.config.Claims.CoreV1().Pods(claim.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list pods of claim %s: %w", claim.Name, err)
	}
	return slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return uses(&p, claim.Name) }), nil
}

func uses(pod *corev1.Pod, claim string) bool {
	return pod.Spec.NodeName != "" && slices.Contains(claimsOf(pod), claim)
}

func (c *Controller) volume(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	volume, err := c.volumes.Get("", key.Name)
	if err != nil {
		return 0, ignoreMissing(err)
	}
	return 0, protect(volume, volumeFinalizer,
		func() (bool, error) { return volume.Status.Phase == corev1.VolumeBound, nil },
		func() error {
			_, err := c.config.Volumes.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{})
			return err
		})
}

func (c *Controller) class(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	class, err := c.classes.Get("", key.Name)
	if err != nil {
		return 0, ignoreMissing(err)
	}
	return 0, protect(class, classFinalizer,
		func() (bool, error) { return c.classUsed(class.Name) },
		func() error {
			_, err := c.config.Classes.StorageV1().VolumeAttributesClasses().Update(ctx, class, metav1.UpdateOptions{})
			return err
		})
}

func (c *Controller) classUsed(name string) (bool, error) {
	is := func(p *string) bool { return p != nil && *p == name }
	claims, err := c.claims.List("", nil)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(claims, func(claim *corev1.PersistentVolumeClaim) bool {
		m := claim.Status.ModifyVolumeStatus
		return is(claim.Spec.VolumeAttributesClassName) || is(claim.Status.CurrentVolumeAttributesClassName) || m != nil && m.TargetVolumeAttributesClassName == name
	}) {
		return true, nil
	}
	volumes, err := c.volumes.List("", nil)
	return slices.ContainsFunc(volumes, func(v *corev1.PersistentVolume) bool { return is(v.Spec.VolumeAttributesClassName) }), err
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
