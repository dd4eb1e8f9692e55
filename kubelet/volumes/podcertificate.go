package volumes

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/kubelet/volumes/internal/contents"
)

const (
	// abandonCertificate is after how long a request that is not there any more is made again; refreshJitter spreads requests.
	abandonCertificate = 10 * time.Minute
	refreshJitter      = 5 * time.Minute
	// pollCertificate is how often a request for the next certificate is looked at while the last one is good.
	pollCertificate = 5 * time.Second
)

// certificateKey names a source of a projected volume.
type certificateKey struct {
	pod    types.UID
	volume string
	source int
}

// credentials are a pod's key and certificate. Where they come from, KEP-4317:
//
//	ask ──> wait ──> issued ──> ask, wait (with what was issued) ──> issued ...
//	         └────> refused, for ever
type credentials struct {
	key, chain []byte // PEM; nil before the first is issued
	refresh    time.Time
	refused    error

	request   string // name of the request that is waited for; "": none
	requested []byte // its private key, PEM
	asked     time.Time
}

// podCertificates asks signers for certificates of pods. A new process begins anew, with new keys.
type podCertificates struct {
	client kubernetes.Interface
	node   string
	now    func() time.Time

	mu   sync.Mutex
	held map[certificateKey]*credentials
}

// get returns the key and the certificates of a source, and when to look again. Calls for one pod are one after another.
func (c *podCertificates) get(ctx context.Context, pod *corev1.Pod, key certificateKey, source *corev1.PodCertificateProjection) (private, chain []byte, again time.Time, err error) {
	c.mu.Lock()
	have := c.held[key]
	if have == nil {
		have = &credentials{}
		c.held[key] = have
	}
	c.mu.Unlock()
	if have.refused == nil && (have.chain == nil || !c.now().Before(have.refresh)) {
		err = c.advance(ctx, pod, have, source)
	}
	switch {
	case have.refused != nil:
		return nil, nil, time.Time{}, have.refused
	case have.chain == nil && err != nil:
		return nil, nil, time.Time{}, err
	case have.chain == nil:
		return nil, nil, time.Time{}, errors.New("credential bundle is not issued yet")
	case !c.now().Before(have.refresh):
		return have.key, have.chain, c.now().Add(pollCertificate), nil
	}
	return have.key, have.chain, have.refresh, nil
}

// advance does the next thing towards a certificate.
func (c *podCertificates) advance(ctx context.Context, pod *corev1.Pod, have *credentials, source *corev1.PodCertificateProjection) error {
	if have.request == "" {
		return c.ask(ctx, pod, have, source)
	}
	list, err := c.client.CertificatesV1().PodCertificateRequests(pod.Namespace).List(ctx, metav1.ListOptions{ // all that nodes may do
		FieldSelector: fields.Set{"metadata.name": have.request, "spec.nodeName": c.node}.AsSelector().String(),
	})
	if err != nil {
		return fmt.Errorf("while getting PodCertificateRequest %q: %w", pod.Namespace+"/"+have.request, err)
	}
	if len(list.Items) == 0 {
		gone := fmt.Errorf("PodCertificateRequest %q appears to have been deleted", pod.Namespace+"/"+have.request)
		if c.now().After(have.asked.Add(abandonCertificate)) {
			have.request = ""
		}
		return gone
	}
	status := &list.Items[0].Status
	for _, condition := range status.Conditions {
		switch condition.Type {
		case certificatesv1.PodCertificateRequestConditionTypeDenied:
			have.refused = fmt.Errorf("PodCertificateRequest was permanently denied: reason=%q message=%q", condition.Reason, condition.Message)
		case certificatesv1.PodCertificateRequestConditionTypeFailed:
			have.refused = fmt.Errorf("PodCertificateRequest was permanently failed: reason=%q message=%q", condition.Reason, condition.Message)
		case certificatesv1.PodCertificateRequestConditionTypeIssued:
			refresh := c.now().Add(refreshJitter)
			if status.BeginRefreshAt != nil {
				refresh = status.BeginRefreshAt.Add(mathrand.N(refreshJitter))
			}
			*have = credentials{key: have.requested, chain: certificatesOnly(status.CertificateChain), refresh: refresh}
		}
	}
	return nil
}

// ask makes a key and a request for its certificate.
func (c *podCertificates) ask(ctx context.Context, pod *corev1.Pod, have *credentials, source *corev1.PodCertificateProjection) error {
	account, err := c.client.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, pod.Spec.ServiceAccountName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("while fetching service account: %w", err)
	}
	node, err := c.client.CoreV1().Nodes().Get(ctx, c.node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("while getting node object: %w", err)
	}
	key, err := generateKey(source.KeyType)
	if err != nil {
		return fmt.Errorf("while generating keypair: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("while PEM-encoding private key: %w", err)
	}
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return fmt.Errorf("while making a certificate request: %w", err)
	}
	request, err := c.client.CertificatesV1().PodCertificateRequests(pod.Namespace).Create(ctx, &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, GenerateName: "req-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: source.SignerName, MaxExpirationSeconds: source.MaxExpirationSeconds, StubPKCS10Request: stub,
			UnverifiedUserAnnotations: source.UserAnnotations, PodName: pod.Name, PodUID: pod.UID, ServiceAccountName: account.Name,
			ServiceAccountUID: account.UID, NodeName: types.NodeName(node.Name), NodeUID: node.UID,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("while creating on API: %w", err)
	}
	have.request, have.asked = request.Name, c.now()
	have.requested = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return nil
}

// generateKey makes a key of one of the types that a pod may ask for.
func generateKey(kind string) (crypto.Signer, error) {
	switch kind {
	case "RSA3072":
		return rsa.GenerateKey(rand.Reader, 3072)
	case "RSA4096":
		return rsa.GenerateKey(rand.Reader, 4096)
	case "ECDSAP256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ECDSAP384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ECDSAP521":
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ED25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("unknown key type %q", kind)
}

// certificatesOnly leaves out what is between the certificates of a chain, and their headers.
func certificatesOnly(chain string) []byte {
	var clean bytes.Buffer
	for rest := []byte(chain); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return clean.Bytes()
		}
		clean.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}))
	}
}

// files are where a source wants its key and certificates.
func (c *podCertificates) files(pod *corev1.Pod, source *corev1.PodCertificateProjection, byDefault *int32, key, chain []byte) contents.Payload {
	p := contents.Payload{}
	for path, content := range map[string][]byte{
		source.CredentialBundlePath: slices.Concat(key, chain), source.KeyPath: key, source.CertificateChainPath: chain,
	} {
		if path != "" {
			f := private(pod, byDefault)
			f.Data = content
			p[path] = f
		}
	}
	return p
}

// forget lets go of the keys of a pod.
func (c *podCertificates) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.held {
		if key.pod == uid {
			delete(c.held, key)
		}
	}
}
