package bootstraptoken

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/informer"
	"vigil/informer/workqueue"
)

// The ConfigMap and its keys.
const (
	// ClusterInfo is the name of the ConfigMap in kube-public.
	ClusterInfo = "cluster-info"
	// KubeconfigKey is the key of what is signed: a kubeconfig with the cluster and no credentials.
	KubeconfigKey   = "kubeconfig"
	signaturePrefix = "jws-kubeconfig-" // then the token's ID
)

// Signer keeps the signatures of cluster-info.
type Signer struct {
	client     kubernetes.Interface
	secrets    informer.Lister[*corev1.Secret]
	configMaps informer.Lister[*corev1.ConfigMap]
	queue      *workqueue.Queue
	now        func() time.Time
}

// NewSigner registers the controller's handlers, so it must be called before the informers run.
func NewSigner(config Config) *Signer {
	resource := informer.ResourceOf[*corev1.ConfigMap]()
	resource.Namespace, resource.FieldSelector, resource.DropManagedFields = metav1.NamespacePublic, "metadata.name="+ClusterInfo, true
	s := &Signer{
		client: config.Client, secrets: config.tokens(), queue: config.queue("bootstrap_signer"), now: time.Now,
		configMaps: informer.ListerFor[*corev1.ConfigMap](config.Informers.Informer(resource)),
	}
	look := func() { s.queue.Add(types.NamespacedName{Namespace: metav1.NamespacePublic, Name: ClusterInfo}) }
	handler := informer.EventHandler{
		OnAdd:    func(*informer.Object, bool) { look() },
		OnUpdate: func(_, _ *informer.Object) { look() },
		OnDelete: func(*informer.Object, bool) { look() },
	}
	s.secrets.Informer().AddHandler(handler)
	s.configMaps.Informer().AddHandler(handler)
	return s
}

// Run signs until ctx ends.
func (s *Signer) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{s.secrets.Informer(), s.configMaps.Informer()} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return s.queue.Run(ctx, 1, s.reconcile)
}

func (s *Signer) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	info, err := s.configMaps.Get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	content, ok := info.Data[KubeconfigKey]
	if !ok {
		return 0, workqueue.Terminal(fmt.Errorf("no %s in ConfigMap %s", KubeconfigKey, key))
	}
	secrets, err := s.secrets.List(metav1.NamespaceSystem, nil)
	if err != nil {
		return 0, err
	}
	want := maps.Clone(info.Data)
	maps.DeleteFunc(want, func(name, _ string) bool { return strings.HasPrefix(name, signaturePrefix) })
	for _, secret := range secrets {
		id, token, ok := s.signs(secret)
		if !ok {
			continue
		}
		signature, err := sign(content, id, token)
		if err != nil {
			return 0, fmt.Errorf("sign %s with token %s: %w", key, id, err)
		}
		want[signaturePrefix+id] = signature
	}
	if maps.Equal(want, info.Data) {
		return 0, nil
	}
	info = info.DeepCopy()
	info.Data = want
	if _, err := s.client.CoreV1().ConfigMaps(key.Namespace).Update(ctx, info, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("write signatures of %s: %w", key, err)
	}
	return 0, nil
}

// signs returns ID and secret of a token, when it is one that signs.
func (s *Signer) signs(secret *corev1.Secret) (id, token string, ok bool) {
	id, token = string(secret.Data["token-id"]), string(secret.Data["token-secret"])
	end, ends := expiry(secret)
	ok = secret.DeletionTimestamp == nil && id != "" && token != "" && secret.Name == secretPrefix+id &&
		string(secret.Data["usage-bootstrap-signing"]) == "true" && (!ends || s.now().Before(end))
	return id, token, ok
}

// sign returns a JSON web signature without its content (RFC 7515, appendix F), made with a token by HS256. The token is shorter than
// RFC 7518 wants keys to be, which keeps JOSE libraries from making it.
func sign(content, id, token string) (string, error) {
	header, err := json.Marshal(struct {
		Algorithm string `json:"alg"`
		KeyID     string `json:"kid"`
	}{"HS256", id})
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(encode(header) + "." + encode([]byte(content))))
	return encode(header) + ".." + encode(mac.Sum(nil)), nil
}
