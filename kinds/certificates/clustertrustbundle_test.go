package certificates

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"vigil/kinds/kindtest"
)

type bundle = kindtest.Case[certificatesv1.ClusterTrustBundle]

func TestClusterTrustBundle(t *testing.T) {
	key := newKey(t)
	authority := newCertificate(t, key, x509.Certificate{IsCA: true, BasicConstraintsValid: true})
	good := &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec:       certificatesv1.ClusterTrustBundleSpec{TrustBundle: string(encode(certificateBlock, authority))},
	}
	text, err := yaml.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	kindtest.Minimal(t, ClusterTrustBundle(), string(text), string(text))

	anchors := func(text []byte) func(*certificatesv1.ClusterTrustBundle) {
		return func(b *certificatesv1.ClusterTrustBundle) { b.Spec.TrustBundle = string(text) }
	}
	named := func(name, signer string) func(*certificatesv1.ClusterTrustBundle) {
		return func(b *certificatesv1.ClusterTrustBundle) { b.Name, b.Spec.SignerName = name, signer }
	}
	const at = `spec.trustBundle: Invalid value: "<value omitted>": `
	kindtest.Create(t, ClusterTrustBundle(), good,
		bundle{Name: "signer", Edit: named("example.com:x:v1", "example.com/x")},
		bundle{
			Name: "name without signer", Edit: named("example.com:x:v1", ""),
			Want: []string{`metadata.name: Invalid value: "example.com:x:v1": ClusterTrustBundle without signer name must not have ":" in its name`},
		},
		bundle{
			Name: "name of other signer", Edit: named("x", "example.com/x"),
			Want: []string{`metadata.name: Invalid value: "x": ClusterTrustBundle for signerName example.com/x must be named with prefix example.com:x:`},
		},
		bundle{
			Name: "signer's name", Edit: named("example.com:v1", "example.com"),
			Want: []string{`spec.signerName: Invalid value: "example.com": must be a fully qualified domain and path of the form 'example.com/signer-name'`},
		},
		bundle{Name: "none", Edit: anchors(nil), Want: []string{at + "at least one trust anchor must be provided"}},
		bundle{Name: "block", Edit: anchors(encode("X", authority)), Want: []string{at + "entry 0 has bad block type: X"}},
		bundle{
			Name: "headers", Edit: anchors([]byte(strings.Replace(good.Spec.TrustBundle, "-\n", "-\na: b\n\n", 1))),
			Want: []string{at + "entry 0 has PEM block headers"},
		},
		bundle{Name: "garbage", Edit: anchors(encode(certificateBlock, []byte("x"))), Want: []string{at + "entry 0 does not parse as X.509"}},
		bundle{
			Name: "no authority", Edit: anchors(encode(certificateBlock, authority, newCertificate(t, key, x509.Certificate{}))),
			Want: []string{at + "entry 1 does not have the CA bit set"},
		},
		bundle{Name: "twice", Edit: anchors(encode(certificateBlock, authority, authority)), Want: []string{at + "duplicate trust anchor (indices [0 1])"}},
		bundle{Name: "large", Edit: anchors(make([]byte, maxTrustBundleBytes+1)), Want: []string{"spec.trustBundle: Too long: may not be more than 1048576 bytes"}},
	)
	old := good.DeepCopy()
	old.Spec.TrustBundle = "parsers of old have let this pass"
	kindtest.Update(t, ClusterTrustBundle(), old,
		bundle{Name: "what is stored already", Edit: func(b *certificatesv1.ClusterTrustBundle) { b.Labels = map[string]string{"a": "b"} }},
		bundle{Name: "anchors", Edit: anchors([]byte("x")), Want: []string{at + "at least one trust anchor must be provided"}},
		bundle{
			Name: "signer", Edit: func(b *certificatesv1.ClusterTrustBundle) { b.Spec.SignerName = "example.com/x" },
			Want: []string{
				`metadata.name: Invalid value: "x": ClusterTrustBundle for signerName example.com/x must be named with prefix example.com:x:`,
				`spec.signerName: Invalid value: "example.com/x": field is immutable`,
			},
		},
	)
	kindtest.Row(t, ClusterTrustBundle(), good, time.Now(), "x", "<none>")
}
