package certificates

import (
	"crypto/elliptic"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"vigil/kinds/kindtest"
)

type podRequest = kindtest.Case[certificatesv1.PodCertificateRequest]

const badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`

func goodPodRequest(t *testing.T) *certificatesv1.PodCertificateRequest {
	t.Helper()
	return &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/x", PodName: "p", PodUID: "1", ServiceAccountName: "s", ServiceAccountUID: "2", NodeName: "n", NodeUID: "3",
			StubPKCS10Request: newRequest(t, newKey(t)),
		},
	}
}

func TestPodCertificateRequest_Minimal(t *testing.T) {
	request := goodPodRequest(t)
	in, err := yaml.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	request.Spec.MaxExpirationSeconds = kindtest.Ptr(int32(86400))
	want, err := yaml.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	kindtest.Minimal(t, PodCertificateRequest(), string(in), string(want))
}

func TestPodCertificateRequest_Create(t *testing.T) {
	spec := func(edit func(*certificatesv1.PodCertificateRequestSpec)) func(*certificatesv1.PodCertificateRequest) {
		return func(r *certificatesv1.PodCertificateRequest) { edit(&r.Spec) }
	}
	expiration := func(signer string, seconds int32) func(*certificatesv1.PodCertificateRequest) {
		return spec(func(s *certificatesv1.PodCertificateRequestSpec) {
			s.SignerName, s.MaxExpirationSeconds = signer, &seconds
		})
	}
	stub := func(der []byte) func(*certificatesv1.PodCertificateRequest) {
		return spec(func(s *certificatesv1.PodCertificateRequestSpec) { s.StubPKCS10Request = der })
	}
	forged := newRequest(t, newKey(t))
	forged[len(forged)-1] ^= 1
	kindtest.Create(t, PodCertificateRequest(), goodPodRequest(t),
		podRequest{
			Name: "empty", Edit: spec(func(s *certificatesv1.PodCertificateRequestSpec) {
				*s = certificatesv1.PodCertificateRequestSpec{StubPKCS10Request: s.StubPKCS10Request}
			}),
			Want: []string{
				"spec.signerName: Required value",
				`spec.podName: Invalid value: "": ` + badSubdomain,
				`spec.podUID: Invalid value: "": must not be empty`,
				`spec.serviceAccountName: Invalid value: "": ` + badSubdomain,
				`spec.serviceAccountUID: Invalid value: "": must not be empty`,
				`spec.nodeName: Invalid value: "": ` + badSubdomain,
				`spec.nodeUID: Invalid value: "": must not be empty`,
			},
		},
		podRequest{
			Name: "long uid", Edit: spec(func(s *certificatesv1.PodCertificateRequestSpec) { s.NodeUID = types.UID(strings.Repeat("x", 129)) }),
			Want: []string{"spec.nodeUID: Too long: may not be more than 128 bytes"},
		},
		podRequest{
			Name: "annotation", Edit: spec(func(s *certificatesv1.PodCertificateRequestSpec) {
				s.UnverifiedUserAnnotations = map[string]string{"a": "b", "example.com/a": "c"}
			}),
			Want: []string{`spec.unverifiedUserAnnotations: Invalid value: "a": must be a domain-prefixed key (such as "acme.io/foo")`},
		},
		podRequest{Name: "longest", Edit: expiration("example.com/x", 7862400)},
		podRequest{
			Name: "too long", Edit: expiration("example.com/x", 7862401),
			Want: []string{"spec.maxExpirationSeconds: Invalid value: 7862401: must be in the range [3600, 7862400]"},
		},
		podRequest{
			Name: "too long for Kubernetes", Edit: expiration("kubernetes.io/x", 86401),
			Want: []string{"spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]"},
		},
		podRequest{
			Name: "too short", Edit: expiration("example.com/x", 3599),
			Want: []string{"spec.maxExpirationSeconds: Invalid value: 3599: must be in the range [3600, 7862400]"},
		},
		podRequest{Name: "P256", Edit: stub(newRequest(t, newCurveKey(t, elliptic.P256())))},
		podRequest{
			Name: "P224", Edit: stub(newRequest(t, newCurveKey(t, elliptic.P224()))),
			Want: []string{`spec.stubPKCS10Request: Invalid value: "curve P-224": elliptic public keys must use curve P256, P384, or P521`},
		},
		podRequest{Name: "garbage", Edit: stub([]byte("x")), Want: []string{`spec.stubPKCS10Request: Invalid value: "eA==": must be a valid PKCS#10 CSR`}},
		podRequest{Name: "forged", Edit: stub(forged), Want: []string{`spec.stubPKCS10Request: Invalid value: could not verify the signature of the PKCS#10 CSR`}},
		podRequest{
			Name: "large", Edit: stub(make([]byte, maxStubRequestBytes+1)),
			Want: []string{"spec.stubPKCS10Request: Too long: may not be more than 10240 bytes"},
		},
	)
}

func TestPodCertificateRequest_Update(t *testing.T) {
	old := goodPodRequest(t)
	obj := old.DeepCopy()
	obj.Spec.PodName = "q"
	errs := kindtest.Change(PodCertificateRequest(), "", obj, old)
	if len(errs) != 1 || errs[0].Field != "spec" || errs[0].Detail != "field is immutable" {
		t.Errorf("errors: %v", errs)
	}
}

func TestPodCertificateRequest_Status(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	row := podCertificateRequest(func() time.Time { return now })
	key := newKey(t)
	old := goodPodRequest(t)
	row.Default(old)
	old.Spec.StubPKCS10Request = newRequest(t, key)

	ended := func(outcomes ...string) []metav1.Condition {
		var conditions []metav1.Condition
		for _, t := range outcomes {
			conditions = append(conditions, metav1.Condition{Type: t, Status: "True", Reason: "Because", LastTransitionTime: metav1.NewTime(now)})
		}
		return conditions
	}
	issued := func(edit func(s *certificatesv1.PodCertificateRequestStatus, c *x509.Certificate)) func(*certificatesv1.PodCertificateRequest) {
		return func(r *certificatesv1.PodCertificateRequest) {
			c := x509.Certificate{NotBefore: now, NotAfter: now.Add(2 * time.Hour)}
			at := func(d time.Duration) *metav1.Time { return kindtest.Ptr(metav1.NewTime(now.Add(d))) }
			s := certificatesv1.PodCertificateRequestStatus{Conditions: ended("Issued"), NotBefore: at(0), NotAfter: at(2 * time.Hour), BeginRefreshAt: at(time.Hour)}
			edit(&s, &c)
			if s.CertificateChain == "" {
				s.CertificateChain = string(encode(certificateBlock, newCertificate(t, key, c)))
			}
			r.Status = s
		}
	}
	change := func(edit func(*certificatesv1.PodCertificateRequest)) []string {
		obj := old.DeepCopy()
		edit(obj)
		var texts []string
		for _, err := range kindtest.Change(row, "status", obj, old) {
			texts = append(texts, err.Field+": "+err.Detail)
		}
		return texts
	}
	for _, tc := range []struct {
		name string
		edit func(*certificatesv1.PodCertificateRequest)
		want string // field and detail of the errors
	}{
		{"issued", issued(func(*certificatesv1.PodCertificateRequestStatus, *x509.Certificate) {}), ""},
		{"denied", func(r *certificatesv1.PodCertificateRequest) { r.Status.Conditions = ended("Denied") }, ""},
		{
			"denied with certificate", issued(func(s *certificatesv1.PodCertificateRequestStatus, _ *x509.Certificate) {
				s.Conditions = ended("Denied")
			}),
			"status: non-condition status fields must be empty when denying or failing the PodCertificateRequest",
		},
		{
			"certificate without condition", issued(func(s *certificatesv1.PodCertificateRequestStatus, _ *x509.Certificate) { s.Conditions = nil }),
			`status: status is immutable unless transitioning to "Issued", "Denied", or "Failed"`,
		},
		{
			"two outcomes", func(r *certificatesv1.PodCertificateRequest) { r.Status.Conditions = ended("Denied", "Failed") },
			`status.conditions.[1].type: There may be at most one condition with type "Issued", "Denied", or "Failed"`,
		},
		{
			"unknown outcome", func(r *certificatesv1.PodCertificateRequest) { r.Status.Conditions = ended("X") },
			`status.conditions.[0].type: supported values: "Issued", "Denied", "Failed"`,
		},
		{
			"no certificate", issued(func(s *certificatesv1.PodCertificateRequestStatus, _ *x509.Certificate) { s.CertificateChain = "x" }),
			"status.certificateChain: issued certificate chain must contain at least one certificate",
		},
		{
			"other block", issued(func(s *certificatesv1.PodCertificateRequestStatus, _ *x509.Certificate) {
				s.CertificateChain = string(encode("X", key))
			}),
			"status.certificateChain: issued certificate chain must consist entirely of CERTIFICATE PEM blocks",
		},
		{
			"other key", issued(func(s *certificatesv1.PodCertificateRequestStatus, c *x509.Certificate) {
				s.CertificateChain = string(encode(certificateBlock, newCertificate(t, newKey(t), *c)))
			}),
			"status.certificateChain: leaf certificate was not issued to the requested public key",
		},
		{
			"no times", issued(func(s *certificatesv1.PodCertificateRequestStatus, _ *x509.Certificate) {
				s.NotBefore, s.NotAfter, s.BeginRefreshAt = nil, nil, nil
			}),
			"status.notBefore: must be present and consistent with the issued certificate; " +
				"status.notAfter: must be present and consistent with the issued certificate; " +
				"status.beginRefreshAt: must be present and in the range [notbefore+10min, notafter-10min]",
		},
		{
			"other start", issued(func(_ *certificatesv1.PodCertificateRequestStatus, c *x509.Certificate) {
				c.NotBefore = now.Add(time.Second)
			}),
			"status.notBefore: must be set to the NotBefore time encoded in the leaf certificate",
		},
		{
			"early start", issued(func(s *certificatesv1.PodCertificateRequestStatus, c *x509.Certificate) {
				c.NotBefore = now.Add(-6 * time.Minute)
				s.NotBefore.Time = c.NotBefore
			}),
			"status.notBefore: must be set to within 5 minutes of kube-apiserver's current time",
		},
		{
			"other end", issued(func(_ *certificatesv1.PodCertificateRequestStatus, c *x509.Certificate) {
				c.NotAfter = now.Add(time.Hour)
			}),
			"status.notAfter: must be set to the NotAfter time encoded in the leaf certificate",
		},
		{
			"short", issued(func(s *certificatesv1.PodCertificateRequestStatus, c *x509.Certificate) {
				c.NotAfter = now.Add(time.Hour - time.Second)
				s.NotAfter.Time = c.NotAfter
			}),
			"status.certificateChain: leaf certificate lifetime must be >= 1 hour",
		},
		{
			"long", issued(func(s *certificatesv1.PodCertificateRequestStatus, c *x509.Certificate) {
				c.NotAfter = now.Add(25 * time.Hour)
				s.NotAfter.Time = c.NotAfter
			}),
			"status.certificateChain: leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)",
		},
		{
			"early refresh", issued(func(s *certificatesv1.PodCertificateRequestStatus, _ *x509.Certificate) {
				s.BeginRefreshAt.Time = now.Add(9 * time.Minute)
			}),
			"status.beginRefreshAt: must be at least 10 minutes after status.notBefore",
		},
		{
			"late refresh", issued(func(s *certificatesv1.PodCertificateRequestStatus, _ *x509.Certificate) {
				s.BeginRefreshAt.Time = now.Add(111 * time.Minute)
			}),
			"status.beginRefreshAt: must be at least 10 minutes before status.notAfter",
		},
		{
			"garbage behind", issued(func(s *certificatesv1.PodCertificateRequestStatus, c *x509.Certificate) {
				s.CertificateChain = string(encode(certificateBlock, newCertificate(t, key, *c), []byte("x")))
			}),
			"status.certificateChain: intermediate certificate does not parse as valid X.509",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := strings.Join(change(tc.edit), "; "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
	old.Status.Conditions = ended("Failed")
	got := strings.Join(change(func(r *certificatesv1.PodCertificateRequest) { r.Status.Conditions = ended("Denied") }), "; ")
	if want := "status: immutable after PodCertificateRequest is issued, denied, or failed"; got != want {
		t.Errorf("ended twice: %q", got)
	}
}
