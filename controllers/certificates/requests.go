package certificates

import (
	"context"
	"log/slog"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/informer"
	"vigil/informer/workqueue"
)

// Config says what the controllers work with. Client and Informers are needed, by the approver Server, too.
type Config struct {
	Server    *rest.Config // how Client reaches the API server
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// requests are all signing requests, and a queue of those to look at.
type requests struct {
	client kubernetes.Interface
	lister informer.Lister[*certificatesv1.CertificateSigningRequest]
	queue  *workqueue.Queue
}

func newRequests(config Config, name string) requests {
	resource := informer.ResourceOf[*certificatesv1.CertificateSigningRequest]()
	resource.DropManagedFields = true
	r := requests{
		client: config.Client,
		lister: informer.ListerFor[*certificatesv1.CertificateSigningRequest](config.Informers.Informer(resource)),
		queue:  workqueue.New(workqueue.Config{Name: name, Logger: config.Logger, Metrics: config.Metrics}),
	}
	r.lister.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { r.queue.Add(o.NamespacedName()) },
		OnUpdate: func(_, o *informer.Object) { r.queue.Add(o.NamespacedName()) },
	})
	return r
}

func (r *requests) run(ctx context.Context, workers int, handle func(context.Context, *certificatesv1.CertificateSigningRequest) (time.Duration, error)) error {
	if err := r.lister.Informer().WaitForSync(ctx); err != nil {
		return err
	}
	return r.queue.Run(ctx, workers, func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
		csr, err := r.lister.Get("", key.Name)
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		again, err := handle(ctx, csr.DeepCopy())
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return again, nil // an event comes for what it is now
		}
		return again, err
	})
}

// condition returns a request's condition of a type that is true, nil when it has none.
func condition(csr *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	i := slices.IndexFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == t && (c.Status == "" || c.Status == corev1.ConditionTrue)
	})
	if i < 0 {
		return nil
	}
	return &csr.Status.Conditions[i]
}
