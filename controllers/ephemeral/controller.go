// Package ephemeral makes the claims of pods' generic ephemeral volumes (KEP-1698): each belongs to its pod and goes with it. Follows upstream's
// pkg/controller/volume/ephemeral.
package ephemeral

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/ephemeral"

	"vigil/informer"
	"vigil/informer/workqueue"
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

// Controller makes claims.
type Controller struct {
	config Config
	queue  *workqueue.Queue // of pods
	pods   informer.Lister[*corev1.Pod]
	claims informer.Lister[*corev1.PersistentVolumeClaim]
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	pods, claims := informer.ResourceOf[*corev1.Pod](), informer.ResourceOf[*corev1.PersistentVolumeClaim]()
	pods.DropManagedFields, claims.DropManagedFields = true, true
	c := &Controller{
		config: config,
		queue:  workqueue.New(workqueue.Config{Name: "ephemeral_volume", Logger: config.Logger, Metrics: config.Metrics}),
		pods:   informer.ListerFor[*corev1.Pod](config.Informers.Informer(pods)),
		claims: informer.ListerFor[*corev1.PersistentVolumeClaim](config.Informers.Informer(claims)),
	}
	c.pods.Informer().AddHandler(informer.EventHandler{ // the volumes of a pod never change
		OnAdd: func(o *informer.Object, _ bool) { c.queue.Add(o.NamespacedName()) },
	})
	remade := informer.ControllerKeys("", "Pod", c.queue.Add)
	c.claims.Informer().AddHandler(informer.EventHandler{OnDelete: remade.OnDelete})
	return c
}

// Run makes claims until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{c.pods.Informer(), c.claims.Informer()} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return c.queue.Run(ctx, workers, c.reconcile)
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	pod, err := c.pods.Get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil || pod.DeletionTimestamp != nil {
		return 0, err
	}
	var errs []error
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral == nil {
			continue
		}
		if err := c.ensure(ctx, pod, &pod.Spec.Volumes[i]); err != nil {
			c.config.Recorder.Eventf(pod, corev1.EventTypeWarning, "FailedBinding", "ephemeral volume: %v", err)
			errs = append(errs, err)
		}
	}
	return 0, errors.Join(errs...)
}

// ensure has the claim of a volume. A claim of that name that belongs to somebody else is an error.
func (c *Controller) ensure(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	name := ephemeral.VolumeClaimName(pod, volume)
	have, err := c.claims.Get(pod.Namespace, name)
	if err == nil {
		return ephemeral.VolumeIsForPod(pod, have)
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	template := volume.Ephemeral.VolumeClaimTemplate
	_, err = c.config.Client.CoreV1().PersistentVolumeClaims(pod.Namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: template.Spec,
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		have, err = c.config.Client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return ephemeral.VolumeIsForPod(pod, have)
		}
	}
	if err != nil {
		return fmt.Errorf("create PVC %s: %w", name, err)
	}
	return nil
}
