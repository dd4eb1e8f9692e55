package bootstraptoken

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/informer"
	"vigil/informer/workqueue"
)

// TokenCleaner removes bootstrap tokens that have ended.
type TokenCleaner struct {
	client  kubernetes.Interface
	secrets informer.Lister[*corev1.Secret]
	queue   *workqueue.Queue
	now     func() time.Time
}

// NewTokenCleaner registers the controller's handlers, so it must be called before the informers run.
func NewTokenCleaner(config Config) *TokenCleaner {
	c := &TokenCleaner{client: config.Client, secrets: config.tokens(), queue: config.queue("token_cleaner"), now: time.Now}
	c.secrets.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { c.queue.Add(o.NamespacedName()) },
		OnUpdate: func(_, o *informer.Object) { c.queue.Add(o.NamespacedName()) },
	})
	return c
}

// Run cleans until ctx ends.
func (c *TokenCleaner) Run(ctx context.Context) error {
	if err := c.secrets.Informer().WaitForSync(ctx); err != nil {
		return err
	}
	return c.queue.Run(ctx, 1, c.reconcile)
}

func (c *TokenCleaner) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	secret, err := c.secrets.Get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	end, ends := expiry(secret)
	if !ends {
		return 0, nil
	}
	if left := end.Sub(c.now()); left > 0 {
		return left, nil
	}
	err = c.client.CoreV1().Secrets(key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("delete bootstrap token %s that has ended: %w", key.Name, err)
	}
	return 0, nil
}
