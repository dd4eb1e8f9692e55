package serviceaccount

import (
	"bytes"
	"context"
	"crypto"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/informer"
	"vigil/informer/workqueue"
	"vigil/internal/accounttoken"
)

// TokensConfig says what the tokens controller works with. Client, Informers and Key are needed.
type TokensConfig struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Key       crypto.Signer     // signs the tokens; the API server knows its public half
	RootCA    []byte            // PEM, goes into each Secret; empty: none does
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics
}

// Tokens fills Secrets of type kubernetes.io/service-account-token: with a token of the service account that their annotation names, its
// namespace, and the certificates by which clients know the API server. A Secret whose service account does not exist is deleted. A
// Secret that is deleted is taken off the list of its service account.
//
// It makes no Secrets: pods get their tokens without. Follows upstream's TokensController as it is since Kubernetes 1.24.
type Tokens struct {
	client   kubernetes.Interface
	signer   jose.Signer
	rootCA   []byte
	queue    *workqueue.Queue // of Secrets
	secrets  informer.Lister[*corev1.Secret]
	accounts informer.Lister[*corev1.ServiceAccount]

	mu   sync.Mutex
	gone map[types.NamespacedName]identity // Secrets that were deleted and may still be listed, and whose they were
}

// identity is a service account as the annotations of a Secret name it. An empty uid stands for any.
type identity struct{ name, uid string }

// secretsByAccount finds the Secrets of a service account, by "namespace/name".
const secretsByAccount = "account"

// tokenSecrets are the Secrets that hold tokens of service accounts.
func tokenSecrets(factory *informer.Factory) informer.Lister[*corev1.Secret] {
	resource := informer.ResourceOf[*corev1.Secret]()
	resource.FieldSelector, resource.DropManagedFields = "type="+string(corev1.SecretTypeServiceAccountToken), true
	return informer.ListerFor[*corev1.Secret](factory.Informer(resource))
}

// allAccounts are all service accounts.
func allAccounts(factory *informer.Factory) informer.Lister[*corev1.ServiceAccount] {
	resource := informer.ResourceOf[*corev1.ServiceAccount]()
	resource.DropManagedFields = true
	return informer.ListerFor[*corev1.ServiceAccount](factory.Informer(resource))
}

// NewTokens registers the controller's handlers, so it must be called before the informers run. It fails when tokens cannot be signed
// with the key.
func NewTokens(config TokensConfig) (*Tokens, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	signer, err := accounttoken.NewSigner(config.Key)
	if err != nil {
		return nil, fmt.Errorf("service account tokens: %w", err)
	}
	c := &Tokens{
		client: config.Client, signer: signer, rootCA: config.RootCA,
		queue:   workqueue.New(workqueue.Config{Name: "serviceaccount_tokens_secret", Logger: config.Logger, Metrics: config.Metrics}),
		secrets: tokenSecrets(config.Informers), accounts: allAccounts(config.Informers),
		gone: map[types.NamespacedName]identity{},
	}
	c.secrets.Informer().AddIndex(secretsByAccount, func(dst []string, o *informer.Object) []string {
		return append(dst, o.Namespace()+"/"+accountOf(o).name)
	})
	c.secrets.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { c.queue.Add(o.NamespacedName()) },
		OnUpdate: func(_, o *informer.Object) { c.queue.Add(o.NamespacedName()) },
		OnDelete: func(o *informer.Object, _ bool) {
			c.mu.Lock()
			c.gone[o.NamespacedName()] = accountOf(o)
			c.mu.Unlock()
			c.queue.Add(o.NamespacedName())
		},
	})
	ofAccount := func(o *informer.Object) {
		objects, err := c.secrets.Informer().Indexer().ByIndex(secretsByAccount, o.Key())
		if err != nil {
			panic(err) // there is no such index
		}
		for _, secret := range objects {
			c.queue.Add(secret.NamespacedName())
		}
	}
	c.accounts.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { ofAccount(o) }, // also one of another uid, which has come in place of the one before
		OnDelete: func(o *informer.Object, _ bool) { ofAccount(o) },
	})
	return c, nil
}

// accountOf is whose a Secret is.
func accountOf(o *informer.Object) identity {
	name, _ := o.Annotation(corev1.ServiceAccountNameKey)
	uid, _ := o.Annotation(corev1.ServiceAccountUIDKey)
	return identity{name, uid}
}

// Run fills Secrets until ctx ends.
func (c *Tokens) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{c.secrets.Informer(), c.accounts.Informer()} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return c.queue.Run(ctx, workers, c.reconcile)
}

func (c *Tokens) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	secret, err := c.secrets.Get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return 0, c.forget(ctx, key)
	}
	if err != nil || secret.DeletionTimestamp != nil {
		return 0, err
	}
	c.mu.Lock()
	delete(c.gone, key) // it has come back
	c.mu.Unlock()
	account, err := c.account(ctx, key.Namespace, identity{secret.Annotations[corev1.ServiceAccountNameKey], secret.Annotations[corev1.ServiceAccountUIDKey]})
	switch {
	case err != nil:
		return 0, err
	case account == nil:
		return 0, c.remove(ctx, secret)
	case !c.incomplete(secret):
		return 0, nil
	}
	return 0, c.fill(ctx, secret, account)
}

// account finds a service account, nil when there is none of that name and uid. What the informer does not show may have been made just now.
func (c *Tokens) account(ctx context.Context, namespace string, want identity) (*corev1.ServiceAccount, error) {
	account, err := c.accounts.Get(namespace, want.name)
	if err == nil && (want.uid == "" || want.uid == string(account.UID)) {
		return account, nil
	}
	account, err = c.client.CoreV1().ServiceAccounts(namespace).Get(ctx, want.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("get service account: %w", err)
	case want.uid != "" && want.uid != string(account.UID):
		return nil, nil //nolint:nilnil // the one of that uid has gone
	}
	return account, nil
}

// remove deletes a Secret without a service account.
func (c *Tokens) remove(ctx context.Context, secret *corev1.Secret) error {
	err := c.client.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete the token of a service account that does not exist: %w", err)
	}
	return nil
}

// incomplete says whether something is to be written into a Secret.
func (c *Tokens) incomplete(secret *corev1.Secret) bool {
	return len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 || len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0 ||
		len(c.rootCA) > 0 && !bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], c.rootCA)
}

// fill writes what a Secret lacks. A token that it has stays.
func (c *Tokens) fill(ctx context.Context, secret *corev1.Secret, account *corev1.ServiceAccount) error {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
		token, err := accounttoken.SignLegacy(c.signer, accounttoken.LegacyClaims{
			Namespace: account.Namespace, Secret: secret.Name, Account: account.Name, AccountUID: string(account.UID),
		})
		if err != nil {
			return err
		}
		secret.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	if len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0 {
		secret.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if len(c.rootCA) > 0 {
		secret.Data[corev1.ServiceAccountRootCAKey] = c.rootCA
	}
	secret.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	_, err := c.client.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err): // of a newer version or a deletion an event comes
		return nil
	case apierrors.IsInvalid(err): // it is immutable
		return workqueue.Terminal(fmt.Errorf("write a token into a secret: %w", err))
	}
	return fmt.Errorf("write a token into a secret: %w", err)
}

// forget takes a Secret that was deleted off the list of its service account.
func (c *Tokens) forget(ctx context.Context, key types.NamespacedName) error {
	c.mu.Lock()
	of, ok := c.gone[key]
	c.mu.Unlock()
	if !ok {
		return nil
	}
	account, err := c.account(ctx, key.Namespace, of)
	if err != nil {
		return err
	}
	listed := func(ref corev1.ObjectReference) bool { return ref.Name == key.Name }
	if account != nil && slices.ContainsFunc(account.Secrets, listed) {
		account.Secrets = slices.DeleteFunc(account.Secrets, listed)
		_, err := c.client.CoreV1().ServiceAccounts(key.Namespace).Update(ctx, account, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("take secret %s, which was deleted, off the list of service account %s: %w", key.Name, of.name, err)
		}
	}
	c.mu.Lock()
	delete(c.gone, key)
	c.mu.Unlock()
	return nil
}
