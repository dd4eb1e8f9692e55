package bootstraptoken

import (
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/informer"
	"vigil/informer/workqueue"
)

// Config says what the controllers work with. Client and Informers are needed.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics
}

// tokens is the informer of the Secrets of bootstrap tokens.
func (c *Config) tokens() informer.Lister[*corev1.Secret] {
	resource := informer.ResourceOf[*corev1.Secret]()
	resource.Namespace, resource.FieldSelector, resource.DropManagedFields = metav1.NamespaceSystem, "type="+string(corev1.SecretTypeBootstrapToken), true
	return informer.ListerFor[*corev1.Secret](c.Informers.Informer(resource))
}

func (c *Config) queue(name string) *workqueue.Queue {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return workqueue.New(workqueue.Config{Name: name, Logger: c.Logger, Metrics: c.Metrics})
}

// secretPrefix begins the names of the Secrets.
const secretPrefix = "bootstrap-token-"

// expiry is when a token ends; ok is false when it does not. One whose end cannot be read has ended.
func expiry(secret *corev1.Secret) (end time.Time, ok bool) {
	text := string(secret.Data["expiration"])
	if text == "" {
		return end, false
	}
	end, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, true
	}
	return end, true
}
