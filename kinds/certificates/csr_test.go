package certificates

import (
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds"
	"vigil/kinds/kindtest"
)

type (
	csrCase   = kindtest.Case[certificatesv1.CertificateSigningRequest]
	condition = certificatesv1.CertificateSigningRequestCondition
)

func goodCSR(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "any Name"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: encode(requestBlock, newRequest(t, newKey(t))), SignerName: "example.com/x",
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, ExpirationSeconds: kindtest.Ptr(int32(600)),
		},
	}
}

func TestCSR_Minimal(t *testing.T) {
	request, err := json.Marshal(goodCSR(t).Spec.Request)
	if err != nil {
		t.Fatal(err)
	}
	minimal := `{metadata: {name: x}, spec: {request: ` + string(request) + `, signerName: example.com/x, usages: [client auth]`
	kindtest.Minimal(t, CertificateSigningRequest(), minimal+`}, status: {conditions: [{type: Approved, status: "True"}]}}`, minimal+`}}`)
}

func TestCSR_Requestor(t *testing.T) {
	csr := goodCSR(t)
	csr.Spec.Username, csr.Spec.Groups = "somebody", []string{"system:masters"}
	csr.Spec.Extra = map[string]certificatesv1.ExtraValue{"a": {"b"}}
	want := csr.DeepCopy()
	want.Spec.Username, want.Spec.UID, want.Spec.Groups, want.Spec.Extra = "u", "1", []string{"g"}, map[string]certificatesv1.ExtraValue{"x": {"y", "z"}}
	CertificateSigningRequest().PrepareCreateFor(csr, kinds.User{Name: "u", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"x": {"y", "z"}}})
	if diff := cmp.Diff(want, csr); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCSR_Create(t *testing.T) {
	signer := func(name string) func(*certificatesv1.CertificateSigningRequest) {
		return func(c *certificatesv1.CertificateSigningRequest) { c.Spec.SignerName = name }
	}
	usages := func(usages ...certificatesv1.KeyUsage) func(*certificatesv1.CertificateSigningRequest) {
		return func(c *certificatesv1.CertificateSigningRequest) { c.Spec.Usages = usages }
	}
	const badLabel = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	kindtest.Create(t, CertificateSigningRequest(), goodCSR(t),
		csrCase{
			Name: "name", Edit: func(c *certificatesv1.CertificateSigningRequest) { c.Name = "a/b" },
			Want: []string{`metadata.name: Invalid value: "a/b": may not contain '/'`},
		},
		csrCase{
			Name: "request", Edit: func(c *certificatesv1.CertificateSigningRequest) { c.Spec.Request = []byte("x") },
			Want: []string{`spec.request: Invalid value: "eA==": PEM block type must be CERTIFICATE REQUEST`},
		},
		csrCase{Name: "no usage", Edit: usages(), Want: []string{"spec.usages: Required value"}},
		csrCase{Name: "usage twice", Edit: usages("any", "any"), Want: []string{`spec.usages[1]: Duplicate value: "any"`}},
		csrCase{
			Name: "usage", Edit: usages("x"),
			Want: []string{`spec.usages[0]: Unsupported value: "x": supported values: "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping"`},
		},
		csrCase{Name: "no signer", Edit: signer(""), Want: []string{"spec.signerName: Required value"}},
		csrCase{
			Name: "legacy signer", Edit: signer(legacySigner),
			Want: []string{`spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version`},
		},
		csrCase{
			Name: "signer without path", Edit: signer("example.com"),
			Want: []string{`spec.signerName: Invalid value: "example.com": must be a fully qualified domain and path of the form 'example.com/signer-name'`},
		},
		csrCase{
			Name: "signer without domain", Edit: signer("x/y"),
			Want: []string{`spec.signerName: Invalid value: "x": should be a domain with at least two segments separated by dots`},
		},
		csrCase{
			Name: "labels of the signer", Edit: signer("A.b/x"),
			Want: []string{`spec.signerName: Invalid value: "A.b": validating label "A": ` + badLabel},
		},
		csrCase{
			Name: "expiration", Edit: func(c *certificatesv1.CertificateSigningRequest) { c.Spec.ExpirationSeconds = kindtest.Ptr(int32(599)) },
			Want: []string{"spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)"},
		},
	)
}

func TestCSR_Update(t *testing.T) {
	kindtest.Update(t, CertificateSigningRequest(), goodCSR(t), csrCase{
		Name: "all is put back", Edit: func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec = certificatesv1.CertificateSigningRequestSpec{}
			c.Status.Conditions = []condition{{Type: "x"}}
		},
	})
}

func TestCSR_Approval(t *testing.T) {
	set := func(conditions ...condition) func(*certificatesv1.CertificateSigningRequest) {
		return func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.Usages = nil // is put back
			c.Status.Conditions = conditions
		}
	}
	approved := condition{Type: certificatesv1.CertificateApproved, Status: "True"}
	denied := condition{Type: certificatesv1.CertificateDenied, Status: "True"}
	kindtest.UpdateSubresource(t, CertificateSigningRequest(), "approval", goodCSR(t),
		csrCase{Name: "approved", Edit: set(approved)},
		csrCase{Name: "other condition", Edit: set(condition{Type: "x", Status: "Unknown"})},
		csrCase{
			Name: "both", Edit: set(denied, approved),
			Want: []string{`status.conditions[1].type: Invalid value: "Approved": Approved and Denied conditions are mutually exclusive`},
		},
		csrCase{Name: "twice", Edit: set(denied, denied), Want: []string{`status.conditions[1].type: Duplicate value: "Denied"`}},
		csrCase{
			Name: "status", Edit: set(condition{}, condition{Type: "x", Status: "x"}, condition{Type: certificatesv1.CertificateFailed, Status: "False"}),
			Want: []string{
				"status.conditions[0].type: Required value",
				"status.conditions[0].status: Required value",
				`status.conditions[1].status: Unsupported value: "x": supported values: "False", "True", "Unknown"`,
				`status.conditions[2].status: Unsupported value: "False": supported values: "True"`,
			},
		},
		csrCase{Name: "certificate is put back", Edit: func(c *certificatesv1.CertificateSigningRequest) { c.Status.Certificate = []byte("x") }},
	)
	old := goodCSR(t)
	old.Status.Conditions = []condition{approved}
	kindtest.UpdateSubresource(t, CertificateSigningRequest(), "approval", old, csrCase{
		Name: "withdrawn", Edit: set(),
		Want: []string{`status.conditions: Forbidden: updates may not remove a condition of type "Approved"`},
	})
}

// TestCSR_ApprovalTimes: times that a client leaves out are filled in; a condition that is not new keeps its own.
func TestCSR_ApprovalTimes(t *testing.T) {
	old := goodCSR(t)
	then := metav1.NewTime(time.Unix(1000, 0))
	old.Status.Conditions = []condition{{Type: "x", Status: "True", LastUpdateTime: then, LastTransitionTime: then}}
	obj := old.DeepCopy()
	obj.Status.Conditions = []condition{{Type: "x", Status: "True"}, {Type: certificatesv1.CertificateApproved, Status: "True"}}
	kindtest.Errors(t, kindtest.Change(CertificateSigningRequest(), "approval", obj, old))
	got := obj.Status.Conditions
	if !got[0].LastTransitionTime.Equal(&then) || got[0].LastUpdateTime.Equal(&then) || got[0].LastUpdateTime.IsZero() || got[1].LastTransitionTime.IsZero() {
		t.Errorf("times: %+v", got)
	}
}

func TestCSR_Status(t *testing.T) {
	key := newKey(t)
	certificate := encode(certificateBlock, newCertificate(t, key, x509.Certificate{}))
	set := func(text []byte) func(*certificatesv1.CertificateSigningRequest) {
		return func(c *certificatesv1.CertificateSigningRequest) { c.Status.Certificate = text }
	}
	old := goodCSR(t)
	then := metav1.NewTime(time.Unix(1000, 0))
	old.Status.Conditions = []condition{{
		Type: certificatesv1.CertificateApproved, Status: "True", Reason: "Because", LastUpdateTime: then, LastTransitionTime: then,
	}}
	kindtest.UpdateSubresource(t, CertificateSigningRequest(), "status", old,
		csrCase{Name: "certificate", Edit: set(certificate)},
		csrCase{
			Name: "no block", Edit: set([]byte("x")),
			Want: []string{`status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`},
		},
		csrCase{
			Name: "other block", Edit: set(encode("X", key)),
			Want: []string{`status.certificate: Invalid value: "<certificate data>": only CERTIFICATE PEM blocks are allowed, found "X"`},
		},
		csrCase{
			Name: "headers", Edit: set([]byte(strings.Replace(string(certificate), "-\n", "-\na: b\n\n", 1))),
			Want: []string{`status.certificate: Invalid value: "<certificate data>": no PEM block headers are permitted`},
		},
		csrCase{
			Name: "denied", Edit: func(c *certificatesv1.CertificateSigningRequest) {
				c.Status.Conditions = append(c.Status.Conditions, condition{Type: certificatesv1.CertificateDenied, Status: "True"})
			},
			Want: []string{
				`status.conditions[1].type: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive`,
				`status.conditions: Forbidden: updates may not add a condition of type "Denied"`,
			},
		},
		csrCase{Name: "approval is put back", Edit: func(c *certificatesv1.CertificateSigningRequest) { c.Status.Conditions[0].Reason = "x" }},
		csrCase{Name: "failed", Edit: func(c *certificatesv1.CertificateSigningRequest) {
			c.Status.Conditions = append(c.Status.Conditions, condition{Type: certificatesv1.CertificateFailed, Status: "True"})
		}},
		csrCase{
			Name: "withdrawn", Edit: func(c *certificatesv1.CertificateSigningRequest) { c.Status.Conditions = nil },
			Want: []string{`status.conditions: Forbidden: updates may not remove a condition of type "Approved"`},
		},
	)
	old.Status.Certificate = certificate
	kindtest.UpdateSubresource(t, CertificateSigningRequest(), "status", old, csrCase{
		Name: "other certificate", Edit: set(encode(certificateBlock, newCertificate(t, key, x509.Certificate{IsCA: true}))),
		Want: []string{"status.certificate: Forbidden: updates may not modify existing certificate content"},
	})
}

func TestCSR_Row(t *testing.T) {
	csr := goodCSR(t)
	csr.Spec.Username = "u"
	kindtest.Row(t, CertificateSigningRequest(), csr, time.Now(), "any Name", "<unknown>", "example.com/x", "u", "10m", "Pending")
	csr.Spec.ExpirationSeconds, csr.Spec.SignerName = nil, ""
	csr.Status = certificatesv1.CertificateSigningRequestStatus{
		Conditions:  []condition{{Type: certificatesv1.CertificateApproved}, {Type: certificatesv1.CertificateFailed}},
		Certificate: []byte("x"),
	}
	kindtest.Row(t, CertificateSigningRequest(), csr, time.Now(), "any Name", "<unknown>", "<none>", "u", "<none>", "Approved,Failed,Issued")
	csr.Status.Conditions = append(csr.Status.Conditions, condition{Type: certificatesv1.CertificateDenied})
	kindtest.Row(t, CertificateSigningRequest(), csr, time.Now(), "any Name", "<unknown>", "<none>", "u", "<none>", "Denied,Failed,Issued")
}
