package certificates_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/controllers/certificates"
	"vigil/controllers/internal/controllertest"
	"vigil/informer"
	"vigil/pki"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

// authority writes one and returns it.
func authority(t *testing.T) (*pki.KeyPair, *x509.CertPool) {
	t.Helper()
	ca, err := pki.NewAuthority("signer", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(t.TempDir(), "ca")
	for name, data := range map[string][]byte{".crt": ca.CertPEM(), ".key": key} {
		if err := os.WriteFile(base+name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := pki.NewKeyPair(base+".crt", base+".key", nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	return pair, roots
}

func request(t *testing.T, template *x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

const (
	client  = certificatesv1.UsageClientAuth
	serving = certificatesv1.UsageServerAuth
	digital = certificatesv1.UsageDigitalSignature
)

func TestSigning(t *testing.T) {
	env := controllertest.Start(t)
	pair, roots := authority(t)
	config := certificates.Config{Server: env.Server, Client: env.Client, Informers: env.Informers, Logger: env.Logger}
	env.Run(
		certificates.NewApprover(config).Run, certificates.NewCleaner(config).Run,
		certificates.NewSigner(certificates.SignerConfig{Config: config, Authority: pair}).Run,
	)
	node := pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}
	more := node // what nobody checks, and the API server or others may believe
	more.OrganizationalUnit, more.ExtraNames = []string{"system:masters"}, []pkix.AttributeTypeAndValue{{Type: []int{1, 3, 6, 1, 4, 1, 57683, 2}, Value: "uid"}, {Type: []int{2, 5, 4, 5}, Value: "7"}}
	ip := []net.IP{net.IPv4(192, 0, 2, 1)}
	for _, tc := range []struct {
		name     string
		signer   string
		template x509.CertificateRequest
		usages   []certificatesv1.KeyUsage
		seconds  int32
		approve  bool // by hand
		failed   string
		usage    x509.ExtKeyUsage
		life     time.Duration
	}{
		{"kubelet", certificatesv1.KubeAPIServerClientKubeletSignerName, x509.CertificateRequest{Subject: node}, []certificatesv1.KeyUsage{client, digital}, 0, false, "", x509.ExtKeyUsageClientAuth, 365*24*time.Hour - 5*time.Minute},
		{"kubelet for an hour", certificatesv1.KubeAPIServerClientKubeletSignerName, x509.CertificateRequest{Subject: node}, []certificatesv1.KeyUsage{client, digital}, 3600, false, "", x509.ExtKeyUsageClientAuth, time.Hour},
		{"serving", certificatesv1.KubeletServingSignerName, x509.CertificateRequest{Subject: node, IPAddresses: ip}, []certificatesv1.KeyUsage{serving, digital}, 0, true, "", x509.ExtKeyUsageServerAuth, 365*24*time.Hour - 5*time.Minute},
		{"kubelet with the UID of another", certificatesv1.KubeAPIServerClientKubeletSignerName, x509.CertificateRequest{Subject: more}, []certificatesv1.KeyUsage{client, digital}, 0, false, "", x509.ExtKeyUsageClientAuth, 365*24*time.Hour - 5*time.Minute},
		{"serving with more", certificatesv1.KubeletServingSignerName, x509.CertificateRequest{Subject: more, IPAddresses: ip}, []certificatesv1.KeyUsage{serving, digital}, 0, true, "", x509.ExtKeyUsageServerAuth, 365*24*time.Hour - 5*time.Minute},
		{"person", certificatesv1.KubeAPIServerClientSignerName, x509.CertificateRequest{Subject: pkix.Name{CommonName: "ann", Organization: []string{"devs"}}}, []certificatesv1.KeyUsage{client}, 600, true, "", x509.ExtKeyUsageClientAuth, 10 * time.Minute},
		{"person who serves", certificatesv1.KubeAPIServerClientSignerName, x509.CertificateRequest{Subject: pkix.Name{CommonName: "ann"}}, []certificatesv1.KeyUsage{client, serving}, 0, true, "invalid usage for client certificate: server auth", 0, 0},
		{"kubelet with an address", certificatesv1.KubeAPIServerClientKubeletSignerName, x509.CertificateRequest{Subject: node, IPAddresses: ip}, []certificatesv1.KeyUsage{client, digital}, 0, true, "IP subjectAltNames are not allowed", 0, 0},
		{"serving without address", certificatesv1.KubeletServingSignerName, x509.CertificateRequest{Subject: node}, []certificatesv1.KeyUsage{serving, digital}, 0, true, "DNS or IP subjectAltName is required", 0, 0},
		{"administrator as a kubelet", certificatesv1.KubeAPIServerClientKubeletSignerName, x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:masters"}}}, []certificatesv1.KeyUsage{client, digital}, 0, true, "subject organization is not system:nodes", 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env.T = t
			requests := env.Client.CertificatesV1().CertificateSigningRequests()
			spec := certificatesv1.CertificateSigningRequestSpec{SignerName: tc.signer, Request: request(t, &tc.template), Usages: tc.usages}
			if tc.seconds > 0 {
				spec.ExpirationSeconds = &tc.seconds
			}
			csr, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "r-"}, Spec: spec}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if tc.approve {
				csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: "True", Reason: "ByHand"})
				if _, err := requests.UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			env.Eventually(func(ctx context.Context) error {
				csr, err = requests.Get(ctx, csr.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				for _, c := range csr.Status.Conditions {
					if c.Type == certificatesv1.CertificateFailed {
						return nil
					}
				}
				if len(csr.Status.Certificate) == 0 {
					return errors.New("no certificate and no failure")
				}
				return nil
			})
			if tc.failed != "" {
				last := csr.Status.Conditions[len(csr.Status.Conditions)-1]
				if last.Reason != "SignerValidationFailure" || last.Message != tc.failed {
					t.Errorf("got %s: %s, want %s", last.Reason, last.Message, tc.failed)
				}
				return
			}
			block, _ := pem.Decode(csr.Status.Certificate)
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{tc.usage}}); err != nil {
				t.Error(err)
			}
			if want := (pkix.Name{CommonName: tc.template.Subject.CommonName, Organization: tc.template.Subject.Organization}); cert.Subject.String() != want.String() || cert.IsCA {
				t.Errorf("subject %s, authority %v", cert.Subject, cert.IsCA)
			}
			if left := time.Until(cert.NotAfter); left > tc.life || left < tc.life-time.Minute {
				t.Errorf("good for %s, want %s", left, tc.life)
			}
		})
	}
}

// asking lets administrators do everything, and others ask for certificates.
type asking struct{ denied chan string }

func (a asking) Authorize(_ context.Context, attr *authz.Attributes) (bool, string, error) {
	if attr.User.InGroup(authn.GroupMasters) || attr.Resource == "certificatesigningrequests" && attr.Subresource == "" {
		return true, "", nil
	}
	a.denied <- attr.User.Name + " " + attr.Verb + " " + attr.Resource + "/" + attr.Subresource
	return false, "", nil
}

// Who may not create certificatesigningrequests/nodeclient gets nothing approved.
func TestApprover_NotAllowed(t *testing.T) {
	policy := asking{make(chan string, 1000)}
	s := apiservertest.Start(t, func(c *apiserver.Config) { c.Authorizer = policy })
	informers, err := informer.NewFactory(s.Admin(), informer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	approver := certificates.NewApprover(certificates.Config{Server: s.Admin(), Client: s.Clientset(), Informers: informers})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = informers.Run(ctx) })
	running.Go(func() { _ = approver.Run(ctx) })

	joe, err := kubernetes.NewForConfig(s.Client("joe"))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}}
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Request: request(t, template), Usages: []certificatesv1.KeyUsage{client, digital},
	}}
	if _, err := joe.CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it is asked again, for a role may come
		if denied := <-policy.denied; denied != "joe create certificatesigningrequests/nodeclient" {
			t.Fatalf("asked: %s", denied)
		}
	}
	got, err := joe.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "r", metav1.GetOptions{})
	if err != nil || len(got.Status.Conditions) > 0 {
		t.Errorf("approved: %+v, %v", got.Status, err)
	}
}
