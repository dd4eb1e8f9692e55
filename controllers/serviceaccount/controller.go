// Package serviceaccount gives every namespace what its pods need to talk to the API server: the ServiceAccount default, and the
// ConfigMap kube-root-ca.crt with the certificates by which they know the server. Both are made again when somebody deletes them, and the
// ConfigMap is put right when somebody changes it.
//
// Of ConfigMaps only those of this name are watched.
//
// Two more controllers look after the Secrets that hold tokens of service accounts: Tokens fills them, Cleaner removes what nobody uses.
//
// Follows upstream's pkg/controller/serviceaccount and pkg/controller/certificates/rootcacertpublisher.
package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/informer"
	"vigil/informer/workqueue"
)

const (
	workers = 5
	// Account is the name of the ServiceAccount that pods have unless they say otherwise.
	Account = "default"
	// RootCA is the name of the ConfigMap with the cluster's root certificates.
	RootCA = "kube-root-ca.crt"

	rootCAKey = "ca.crt"
	// The annotation's text is upstream's: it is what users of the ConfigMap are promised.
	description     = "kubernetes.io/description"
	descriptionText = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

// Config says what the controller works with. Client and Informers are needed.
type Config struct {
	Client    kubernetes.Interface // makes ServiceAccounts
	Publisher kubernetes.Interface // writes ConfigMaps; nil: Client does
	Informers *informer.Factory    // run by the caller
	RootCA    []byte               // PEM; empty: no ConfigMap is kept
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics
}

// Controller keeps the two objects in every namespace.
type Controller struct {
	client    kubernetes.Interface
	publisher kubernetes.Interface
	rootCA    string
	queue     *workqueue.Queue // of namespaces, as names without a namespace

	informers  []*informer.Informer
	namespaces informer.Lister[*corev1.Namespace]
	accounts   *informer.Informer
	configMaps informer.Lister[*corev1.ConfigMap]
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	namespaces, configMaps := informer.ResourceOf[*corev1.Namespace](), informer.ResourceOf[*corev1.ConfigMap]()
	configMaps.FieldSelector = "metadata.name=" + RootCA
	namespaces.DropManagedFields, configMaps.DropManagedFields = true, true
	c := &Controller{
		client:    config.Client,
		publisher: config.Publisher,
		rootCA:    string(config.RootCA),
		queue:     workqueue.New(workqueue.Config{Name: "serviceaccount", Logger: config.Logger, Metrics: config.Metrics}),
		accounts:  allAccounts(config.Informers).Informer(),
	}
	if c.publisher == nil {
		c.publisher = c.client
	}
	c.namespaces = informer.ListerFor[*corev1.Namespace](config.Informers.Informer(namespaces))
	c.informers = []*informer.Informer{c.namespaces.Informer(), c.accounts}
	in := func(o *informer.Object) { c.queue.Add(types.NamespacedName{Name: o.Namespace()}) }
	c.namespaces.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { c.queue.Add(o.NamespacedName()) },
		OnUpdate: func(_, o *informer.Object) { c.queue.Add(o.NamespacedName()) },
	})
	c.accounts.AddHandler(informer.EventHandler{OnDelete: func(o *informer.Object, _ bool) {
		if o.Name() == Account {
			in(o)
		}
	}})
	if c.rootCA != "" {
		c.configMaps = informer.ListerFor[*corev1.ConfigMap](config.Informers.Informer(configMaps))
		c.configMaps.Informer().AddHandler(informer.EventHandler{
			OnAdd:    func(o *informer.Object, _ bool) { in(o) }, // what was made and spoilt at once is told as made
			OnUpdate: func(_, o *informer.Object) { in(o) },
			OnDelete: func(o *informer.Object, _ bool) { in(o) },
		})
		c.informers = append(c.informers, c.configMaps.Informer())
	}
	return c
}

// Run keeps the objects until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for _, i := range c.informers {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return c.queue.Run(ctx, workers, c.reconcile)
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	ns, err := c.namespaces.Get("", key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		return 0, nil
	}
	err = errors.Join(c.account(ctx, ns.Name), c.publish(ctx, ns.Name))
	return 0, err
}

// account makes the ServiceAccount when there is none.
func (c *Controller) account(ctx context.Context, namespace string) error {
	if _, ok := c.accounts.Indexer().Get(namespace, Account); ok {
		return nil
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Account}}
	_, err := c.client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	if err = unlessThereOrGoing(err); err != nil {
		return fmt.Errorf("create service account: %w", err)
	}
	return nil
}

// publish makes the ConfigMap, or puts its certificates and description right.
func (c *Controller) publish(ctx context.Context, namespace string) error {
	if c.rootCA == "" {
		return nil
	}
	want := map[string]string{rootCAKey: c.rootCA}
	have, err := c.configMaps.Get(namespace, RootCA)
	if apierrors.IsNotFound(err) {
		made := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: RootCA, Annotations: map[string]string{description: descriptionText}},
			Data:       want,
		}
		_, err := c.publisher.CoreV1().ConfigMaps(namespace).Create(ctx, made, metav1.CreateOptions{})
		if err = unlessThereOrGoing(err); err != nil {
			return fmt.Errorf("create config map: %w", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if maps.Equal(have.Data, want) && len(have.BinaryData) == 0 && have.Annotations[description] != "" {
		return nil
	}
	have.Data, have.BinaryData = want, nil
	if have.Annotations == nil {
		have.Annotations = map[string]string{}
	}
	have.Annotations[description] = descriptionText
	_, err = c.publisher.CoreV1().ConfigMaps(namespace).Update(ctx, have, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // of a newer version or a deletion an event comes
		return fmt.Errorf("update config map: %w", err)
	}
	return nil
}

// unlessThereOrGoing drops the errors of a creation that is not needed: somebody else was faster, or the namespace is going.
func unlessThereOrGoing(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
