package apiserver_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/internal/attacktest"
)

// This file is a list of attacks, each with the answer of the server to it.

// certificate signs what template says with a key of its own. A nil parent signs itself.
func certificate(t *testing.T, template, parent *x509.Certificate, by crypto.Signer) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if parent == nil {
		parent, by = template, key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestAttack_Certificates: a client certificate that is bad in any way is worse than none.
func TestAttack_Certificates(t *testing.T) {
	var ca tls.Certificate
	caTemplate := &x509.Certificate{
		Subject: pkix.Name{CommonName: "kubernetes"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
	}
	ca = certificate(t, caTemplate, nil, nil)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate[0]}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := apiservertest.Start(t, func(c *apiserver.Config) { c.ClientCAFile = file })
	authority, err := x509.ParseCertificate(ca.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	admin := func(change func(*x509.Certificate)) *x509.Certificate {
		c := &x509.Certificate{
			Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		}
		change(c)
		return c
	}
	signed := func(change func(*x509.Certificate)) tls.Certificate {
		return certificate(t, admin(change), authority, ca.PrivateKey.(crypto.Signer))
	}
	good := signed(func(*x509.Certificate) {})
	impostor := certificate(t, &x509.Certificate{Subject: pkix.Name{CommonName: "kubernetes"}, IsCA: true, BasicConstraintsValid: true, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	impostorCert, err := x509.ParseCertificate(impostor.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	// A leaf that signs: it is trusted, but is no authority.
	leaf, err := x509.ParseCertificate(good.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	byLeaf := certificate(t, admin(func(*x509.Certificate) {}), leaf, good.PrivateKey.(crypto.Signer))
	byLeaf.Certificate = append(byLeaf.Certificate, good.Certificate[0])
	byImpostor := certificate(t, admin(func(*x509.Certificate) {}), impostorCert, impostor.PrivateKey.(crypto.Signer))

	for _, tc := range []struct {
		name string
		cert tls.Certificate
		code int
	}{
		{"good", good, 200},
		{"expired", signed(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), 401},
		{"not good yet", signed(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(10 * time.Minute) }), 401},
		{"for servers", signed(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), 401},
		{"without a name", signed(func(c *x509.Certificate) { c.Subject.CommonName = "" }), 401},
		{"self-signed", certificate(t, admin(func(*x509.Certificate) {}), nil, nil), 401},
		{"by an authority of the same name", byImpostor, 401},
		{"by a leaf", byLeaf, 401},
		{"critical extension nobody knows", signed(func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}}
		}), 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
				InsecureSkipVerify:   true,
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tc.cert, nil },
			}}}
			defer h.CloseIdleConnections()
			c := &client{t: t, http: h, url: s.URL}
			for _, path := range []string{"/api/v1/secrets", "/healthz"} { // not even what everybody may see
				r := c.get(path)
				if r.code != tc.code {
					t.Errorf("%s: got %d %.200s, want %d", path, r.code, r.body, tc.code)
				}
				if r.code == 401 && r.status().Message != "Unauthorized" {
					t.Errorf("%s: the answer says too much: %s", path, r.body)
				}
			}
		})
	}
}

// TestAttack_Tokens: forged, misdirected and outlived service account tokens.
func TestAttack_Tokens(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sa.key")
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	s, admin, cs := start(t, func(c *apiserver.Config) { c.Tokens.SigningKeyFile = file })
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{})
	must(err)
	_, err = cs.CoreV1().ServiceAccounts("ns").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot"}}, metav1.CreateOptions{})
	must(err)
	pod := func() *corev1.Pod {
		p, err := cs.CoreV1().Pods("ns").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{ServiceAccountName: "bot", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		must(err)
		return p
	}
	token := func(bound *corev1.Pod, audiences ...string) string {
		spec := authenticationv1.TokenRequestSpec{Audiences: audiences}
		if bound != nil {
			spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: bound.Name, UID: bound.UID}
		}
		out, err := cs.CoreV1().ServiceAccounts("ns").CreateToken(ctx, "bot", &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
		must(err)
		return out.Status.Token
	}
	good := token(nil)
	forge := func(header map[string]any, change func(claims map[string]any), sign func(text string) []byte) string {
		parts := strings.Split(good, ".")
		data, err := base64.RawURLEncoding.DecodeString(parts[1])
		must(err)
		claims := map[string]any{}
		must(json.Unmarshal(data, &claims))
		change(claims)
		h, err := json.Marshal(header)
		must(err)
		p, err := json.Marshal(claims)
		must(err)
		text := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(p)
		return text + "." + base64.RawURLEncoding.EncodeToString(sign(text))
	}
	same, nothing := func(map[string]any) {}, func(string) []byte { return nil }
	es256 := func(k *ecdsa.PrivateKey) func(string) []byte {
		return func(text string) []byte {
			sum := sha256.Sum256([]byte(text))
			r, sg, err := ecdsa.Sign(rand.Reader, k, sum[:])
			must(err)
			return append(r.FillBytes(make([]byte, 32)), sg.FillBytes(make([]byte, 32))...)
		}
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	must(err)
	byPublicKey := func(text string) []byte { // the public key taken for a shared secret
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	header := func(alg string) map[string]any { return map[string]any{"alg": alg} }
	root := func(c map[string]any) { c["sub"] = "system:serviceaccount:kube-system:root" }
	first := pod()
	outlived, replaced := token(first), token(first)
	anonymous := newClient(t, s.Anonymous())
	who := func(token string) (int, string) {
		r := anonymous.do("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`, "Authorization: Bearer "+token, "Content-Type: application/json")
		return r.code, string(r.body)
	}
	// Good tokens are let in, and then refused by authorization: this server lets service accounts do nothing.
	const in = 403
	if code, body := who(outlived); code != in || !strings.Contains(body, "system:serviceaccount:ns:bot") {
		t.Errorf("token of a pod that lives: %d %s", code, body)
	}
	zero := int64(0)
	must(cs.CoreV1().Pods("ns").Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: &zero}))
	if code, body := who(outlived); code != 401 {
		t.Errorf("token of a pod that is gone: %d %s", code, body)
	}
	pod()
	if code, body := who(replaced); code != 401 {
		t.Errorf("token of a pod that was replaced by one of its name: %d %s", code, body)
	}
	for _, tc := range []struct {
		name, token string
		code        int
	}{
		{"good", good, in},
		{"good, signed again", forge(header("ES256"), same, es256(key)), in},
		{"alg none", forge(header("none"), root, nothing), 401},
		{"alg None", forge(header("None"), root, nothing), 401},
		{"no alg", forge(map[string]any{}, root, nothing), 401},
		{"no signature", strings.Join(strings.Split(good, ".")[:2], ".") + ".", 401},
		{"HS256 by the public key", forge(header("HS256"), root, byPublicKey), 401},
		{"key in the header", forge(map[string]any{"alg": "ES256", "jwk": map[string]any{
			"kty": "EC", "crv": "P-256", "x": base64.RawURLEncoding.EncodeToString(other.X.FillBytes(make([]byte, 32))), "y": base64.RawURLEncoding.EncodeToString(other.Y.FillBytes(make([]byte, 32))),
		}}, same, es256(other)), 401},
		{"another key", forge(header("ES256"), same, es256(other)), 401},
		{"all zero signature", forge(header("ES256"), same, func(string) []byte { return make([]byte, 64) }), 401},
		{"other claims, old signature", func() string {
			forged := strings.Split(forge(header("ES256"), root, nothing), ".")
			return forged[0] + "." + forged[1] + "." + strings.Split(good, ".")[2]
		}(), 401},
		{"account that is not there", forge(header("ES256"), func(c map[string]any) {
			c["kubernetes.io"] = map[string]any{"namespace": "kube-system", "serviceaccount": map[string]any{"name": "root", "uid": "x"}}
		}, es256(key)), 401},
		{"wrong audience", token(nil, "vault"), 401},
		{"expired", forge(header("ES256"), func(c map[string]any) { c["exp"] = time.Now().Add(-2 * time.Minute).Unix() }, es256(key)), 401},
		{"from the future", forge(header("ES256"), func(c map[string]any) { c["nbf"] = time.Now().Add(10 * time.Minute).Unix() }, es256(key)), 401},
		{"another issuer", forge(header("ES256"), func(c map[string]any) { c["iss"] = "https://evil.example.com" }, es256(key)), 401},
		{"no token at all", "x", 401},
		{"very long", strings.Repeat("a.b.", 10_000), 401},
		{"other service account's uid", forge(header("ES256"), func(c map[string]any) {
			c["kubernetes.io"] = map[string]any{"namespace": "ns", "serviceaccount": map[string]any{"name": "bot", "uid": "x"}}
		}, es256(key)), 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if code, body := who(tc.token); code != tc.code {
				t.Errorf("got %d %.200s, want %d", code, body, tc.code)
			}
		})
	}
	// A bad token spoils nothing for who has a certificate, and gains nothing.
	if r := admin.get("/api", "Authorization: Bearer x"); r.code != 200 {
		t.Errorf("administrator with a bad token: %d", r.code)
	}
}

// onlyIn lets one user read in one namespace.
type onlyIn struct{ user, namespace string }

func (o onlyIn) Authorize(_ context.Context, a *authz.Attributes) (bool, string, error) {
	mine := a.Resource == "secrets" && a.Namespace == o.namespace || a.Path == "/healthz"
	return a.User.InGroup(authn.GroupMasters) || a.User.Name == o.user && mine, "", nil
}

// TestAttack_Paths: whatever is done to a path, nobody reads what is elsewhere.
func TestAttack_Paths(t *testing.T) {
	s, _, cs := start(t, func(c *apiserver.Config) { c.Authorizer = onlyIn{"joe", "mine"} })
	for _, ns := range []string{"mine", "theirs"} {
		if _, err := cs.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := cs.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"whose": ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	theirs := base64.StdEncoding.EncodeToString([]byte("theirs"))
	for _, proto := range []string{"http/1.1", "h2"} {
		t.Run(proto, func(t *testing.T) {
			config := s.Client("joe")
			config.NextProtos = []string{proto}
			joe := newClient(t, config)
			if r := joe.get("/api/v1/namespaces/mine/secrets/s"); r.code != 200 {
				t.Fatalf("what is allowed: %d", r.code)
			}
			for path, code := range map[string]int{
				"/api/v1/namespaces/theirs/secrets/s":                                       403,
				"/api/v1/namespaces/mine/../theirs/secrets/s":                               403,
				"/api/v1/namespaces/mine/%2e%2e/theirs/secrets/s":                           403,
				"/api/v1/namespaces/mine/secrets/%2e%2e/%2e%2e/theirs/secrets/s":            404,
				"/api/v1/namespaces/mine/secrets/..%2f..%2ftheirs%2fsecrets%2fs":            404,
				"/api/v1/namespaces/mine/secrets/..%2ftheirs%2fs":                           404,
				"/api/v1/namespaces/mine%2f..%2ftheirs/secrets/s":                           403,
				"/api/v1/namespaces/mine%252f..%252ftheirs/secrets/s":                       403,
				"/api/v1/namespaces/mine/secrets/%252e%252e%252ftheirs%252fs":               404,
				"/api/v1//namespaces/theirs/secrets/s":                                      403,
				"/api/v1/namespaces//secrets":                                               403,
				"/api/v1/namespaces/%2e/secrets":                                            403,
				"/api/v1/namespaces/%2e%2e/secrets":                                         403,
				"//api/v1/namespaces/theirs/secrets/s":                                      403,
				"/healthz/../api/v1/namespaces/theirs/secrets/s":                            403,
				"/healthz/%2e%2e/api/v1/namespaces/theirs/secrets/s":                        403,
				"/healthz%2f..%2fapi/v1/namespaces/theirs/secrets/s":                        403,
				"/healthz;/../api/v1/secrets":                                               403,
				"/api/v1/namespaces/mine/secrets/s%00/../../theirs":                         404,
				"/api/v1/namespaces/mine/secrets/%00":                                       404,
				"/api/v1/namespaces/mine/secrets/s%2f":                                      200,
				"/api/v1/watch/namespaces/theirs/secrets":                                   403,
				"/api/v1/watch/namespaces/theirs/secrets/s":                                 403,
				"/api/v1/secrets?fieldSelector=metadata.namespace%3Dmine":                   403,
				"/api/v1/namespaces/mine/secrets?fieldSelector=metadata.namespace%3Dtheirs": 200,
				"/API/v1/namespaces/theirs/secrets/s":                                       403,
				"/api/V1/namespaces/theirs/secrets/s":                                       403,
				"/api/v1/namespaces/mine/secrets/s/../../../theirs/secrets/s":               404,
				"/apis//v1/namespaces/theirs/secrets/s":                                     403,
				"/apis/v1/namespaces/theirs/secrets/s":                                      403,
			} {
				r := joe.get(path)
				if r.code != code {
					t.Errorf("%s: got %d %.150s, want %d", path, r.code, r.body, code)
				}
				if bytes.Contains(r.body, []byte(theirs)) {
					t.Errorf("%s shows what is in the other namespace", path)
				}
			}
		})
	}
}

// TestAttack_Headers: nobody becomes somebody by saying so.
func TestAttack_Headers(t *testing.T) {
	s := apiservertest.Start(t)
	joe, anonymous := newClient(t, s.Client("joe")), newClient(t, s.Anonymous())
	for _, who := range []*client{joe, anonymous} {
		for _, h := range [][]string{
			{"X-Remote-User: admin", "X-Remote-Group: system:masters"},
			{"Impersonate-User: admin", "Impersonate-Group: system:masters"},
			{"impersonate-user: system:kube-scheduler"},
			{"Impersonate-User: system:node:n1", "Impersonate-Group: system:nodes"},
			{"X-Forwarded-User: admin"}, {"X-Original-URL: /healthz"}, {"X-Rewrite-Url: /healthz"}, {"X-HTTP-Method-Override: DELETE"},
		} {
			if r := who.get("/api/v1/secrets", h...); r.code != 403 {
				t.Errorf("%s: got %d %.200s", h, r.code, r.body)
			}
		}
	}
	if r := joe.get("/api/v1/secrets", "Impersonate-Group: system:masters"); r.code != 400 {
		t.Errorf("a group without a user: got %d %.200s", r.code, r.body)
	}
	if r := joe.get("/api/v1/secrets", "Impersonate-User: admin"); !strings.Contains(r.status().Message, `User "joe" cannot impersonate`) {
		t.Errorf("got %s", r.body)
	}
}

// rawHTTP1 sends text on a connection of its own with the certificate of config, and returns what comes back until the server
// closes or stays silent.
func rawHTTP1(t *testing.T, config *rest.Config, text io.Reader) string {
	t.Helper()
	conn := dialTLS(t, config, "http/1.1")
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(timeout))
	go func() {
		_, _ = io.Copy(conn, text) // the server may hang up
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
	return resp.Status + " " + string(body)
}

func dialTLS(t *testing.T, config *rest.Config, proto string) *tls.Conn {
	t.Helper()
	tc, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	tc.NextProtos = []string{proto}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(config.Host, "https://"), tc)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestAttack_Smuggling: two readers of one stream must not see different requests in it.
func TestAttack_Smuggling(t *testing.T) {
	s := apiservertest.Start(t)
	for name, tc := range map[string]struct{ text, want string }{
		"both lengths":          {"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /api/v1/secrets HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request"},
		"two lengths":           {"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400 Bad Request"},
		"negative length":       {"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "400 Bad Request"},
		"encoding nobody knows": {"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n", "501 Not Implemented"},
		"bare LF in a header":   {"GET /api HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n", "400 Bad Request"},
		"space in a name":       {"GET /api HTTP/1.1\r\nHost: x\r\nContent-Length : 3\r\n\r\nabc", "400 Bad Request"},
		"no host":               {"GET /api HTTP/1.1\r\n\r\n", "400 Bad Request"},
		"two hosts":             {"GET /api HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 Bad Request"},
		"no HTTP":               {"\x16\x03\x01 nonsense\r\n\r\n", "400 Bad Request"},
		"HTTP/9":                {"GET /api HTTP/9.9\r\nHost: x\r\n\r\n", "505 HTTP Version Not Supported"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rawHTTP1(t, s.Admin(), strings.NewReader(tc.text)); !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %.200s, want %s", got, tc.want)
			}
		})
	}
}

// TestAttack_Sizes: what is too large is refused before it costs much.
func TestAttack_Sizes(t *testing.T) {
	s, admin, _ := start(t)
	const create = "/api/v1/namespaces/default/configmaps"
	asJSON := "Content-Type: application/json"
	if r := admin.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"default"}}`, asJSON); r.code != 201 {
		t.Fatal(string(r.body))
	}
	var bomb bytes.Buffer
	packed := gzip.NewWriter(&bomb)
	for range 1024 { // 64 MiB of spaces in 64 KiB
		_, _ = packed.Write(bytes.Repeat([]byte(" "), 64<<10))
	}
	packed.Close()
	laughs := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := 'b'; i <= 'k'; i++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", i, i, strings.TrimSuffix(strings.Repeat("*"+string(i-1)+",", 9), ","))
	}
	deep := strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000)
	operations := "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"ConfigMap"},`, 10_001), ",") + "]"
	if r := admin.do("POST", create, `{"metadata":{"name":"c"},"data":{"k":"v"}}`, asJSON); r.code != 201 {
		t.Fatal(string(r.body))
	}
	for _, tc := range []struct {
		name, method, path, body string
		header                   []string
		codes                    []int // one of them
	}{
		{"body", "POST", create, `{"metadata":{"name":"x"},"data":{"k":"` + strings.Repeat("a", 3<<20) + `"}}`, []string{asJSON}, []int{413}},
		{"gzip bomb as JSON", "POST", create, bomb.String(), []string{asJSON, "Content-Encoding: gzip"}, []int{400, 415}},
		{"depth of JSON", "POST", create, `{"metadata":{"name":"x"},"data":` + deep + `}`, []string{asJSON}, []int{400}},
		{"depth of arrays", "POST", create, strings.Repeat("[", 1_000_000), []string{asJSON}, []int{400}},
		{"depth of a merge patch", "PATCH", create + "/c", deep, []string{"Content-Type: application/merge-patch+json"}, []int{400}},
		{"depth of a strategic patch", "PATCH", create + "/c", deep, []string{"Content-Type: application/strategic-merge-patch+json"}, []int{400}},
		{"depth of an applied object", "PATCH", create + "/c?fieldManager=x", deep, []string{"Content-Type: application/apply-patch+yaml"}, []int{400}},
		{"laughs in YAML", "POST", create, laughs, []string{"Content-Type: application/yaml"}, []int{400}},
		{"laughs that are applied", "PATCH", create + "/c?fieldManager=x", laughs, []string{"Content-Type: application/apply-patch+yaml"}, []int{400}},
		{"operations of a patch", "PATCH", create + "/c", operations, []string{"Content-Type: application/json-patch+json"}, []int{413}},
		{"patch that copies itself", "PATCH", create + "/c", "[" + strings.TrimSuffix(strings.Repeat(`{"op":"copy","from":"/data","path":"/data/x"},`, 40), ",") + "]", []string{"Content-Type: application/json-patch+json"}, []int{400, 413, 422}},
		{"protobuf that promises much", "POST", create, "k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\xff\xff\xff\xff\x07", []string{"Content-Type: application/vnd.kubernetes.protobuf"}, []int{400}},
		{"protobuf of groups", "POST", create, "k8s\x00" + strings.Repeat("\x0b", 1_000_000), []string{"Content-Type: application/vnd.kubernetes.protobuf"}, []int{400}},
		{"selector", "GET", create + "?labelSelector=" + strings.Repeat("a%3Db,", 20_000) + "a%3Db", "", nil, []int{200, 400, 414, 431}},
		{"limit", "GET", create + "?limit=99999999999999999999", "", nil, []int{400}},
		{"negative limit", "GET", create + "?limit=-1", "", nil, []int{200, 400}},
		{"continue token of another world", "GET", create + "?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi8uLi9zZWNyZXRzL3gifQ", "", nil, []int{400, 410}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := admin.do(tc.method, tc.path, tc.body, tc.header...)
			for _, code := range tc.codes {
				if r.code == code {
					return
				}
			}
			t.Errorf("got %d %.200s, want one of %d", r.code, r.body, tc.codes)
		})
	}
	t.Run("header", func(t *testing.T) {
		text := "GET /api HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 4<<20) + "\r\n\r\n"
		if got := rawHTTP1(t, s.Admin(), strings.NewReader(text)); !strings.HasPrefix(got, "431 ") && !strings.Contains(got, "reset") && !strings.Contains(got, "EOF") {
			t.Errorf("got %.200s", got)
		}
	})
	t.Run("URL", func(t *testing.T) {
		text := "GET /api?" + strings.Repeat("a", 4<<20) + " HTTP/1.1\r\nHost: x\r\n\r\n"
		if got := rawHTTP1(t, s.Admin(), strings.NewReader(text)); !strings.HasPrefix(got, "431 ") && !strings.Contains(got, "reset") && !strings.Contains(got, "EOF") {
			t.Errorf("got %.200s", got)
		}
	})
	if r := admin.get("/healthz"); r.code != 200 {
		t.Errorf("afterwards: %d", r.code)
	}
}

// endless is a body that comes a byte at a time and never ends.
type endless struct{ stop <-chan struct{} }

func (e endless) Read(p []byte) (int, error) {
	select {
	case <-e.stop:
		return 0, io.EOF
	case <-time.After(20 * time.Millisecond):
		p[0] = ' '
		return 1, nil
	}
}

// TestAttack_Slow: who is slow to ask holds nothing for long.
func TestAttack_Slow(t *testing.T) {
	s := apiservertest.Start(t, func(c *apiserver.Config) { c.RequestTimeout = 500 * time.Millisecond })
	stop := make(chan struct{})
	defer close(stop)
	for _, proto := range []string{"http/1.1", "h2"} {
		t.Run("body over "+proto, func(t *testing.T) {
			config := s.Admin()
			config.NextProtos = []string{proto}
			c := newClient(t, config)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/api/v1/namespaces", endless{stop})
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := c.http.Do(req)
			if ctx.Err() != nil {
				t.Fatal("the request is still held")
			}
			if err != nil {
				return // hung up on
			}
			defer resp.Body.Close()
			if resp.StatusCode < 400 {
				t.Errorf("got %s", resp.Status)
			}
		})
	}
}

// TestAttack_RapidReset: streams that are opened only to be reset (CVE-2023-44487) end their connection, and nobody else's.
func TestAttack_RapidReset(t *testing.T) {
	s, admin, _ := start(t)
	conn := dialTLS(t, s.Client("joe"), "h2")
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(timeout))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan http2.ErrCode, 1)
	go func() {
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				close(ended)
				return
			}
			if away, ok := frame.(*http2.GoAwayFrame); ok {
				ended <- away.ErrCode
				return
			}
		}
	}()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	enc.SetMaxDynamicTableSize(0)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/api/v1/pods"}} {
		if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	sent := 0
	for id := uint32(1); ; id += 2 {
		err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
		if err = errors.Join(err, framer.WriteRSTStream(id, http2.ErrCodeCancel)); err != nil {
			break
		}
		if sent++; sent%200 == 0 {
			if r := admin.get("/healthz"); r.code != 200 {
				t.Fatalf("another client after %d resets: %d", sent, r.code)
			}
		}
	}
	if code, ok := <-ended; ok && code != http2.ErrCodeEnhanceYourCalm {
		t.Errorf("ended with %v after %d resets", code, sent)
	}
	t.Logf("ended after %d resets", sent)
	if r := admin.get("/healthz"); r.code != 200 {
		t.Errorf("afterwards: %d", r.code)
	}
}

// rangesOfEtcd returns how often etcd, which runs in this process, has been read so far.
func rangesOfEtcd(t *testing.T) float64 {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "etcd_mvcc_range_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("etcd does not count how often it is read")
	return 0
}

// TestAttack_UnknownTokens: bootstrap tokens that anybody makes up are refused without asking etcd about each.
func TestAttack_UnknownTokens(t *testing.T) {
	s, _, _ := start(t, func(c *apiserver.Config) { c.Authentication.BootstrapTokens = true })
	anybody := newClient(t, s.Anonymous())
	before, began := rangesOfEtcd(t), time.Now()
	const requests = 1000
	attacktest.Budget{Memory: 64 << 20, CPU: 20 * time.Second}.Spend(t, func() {
		for i := range requests {
			if r := anybody.get("/version", fmt.Sprintf("Authorization: Bearer %06d.0123456789abcdef", i)); r.code != 401 {
				t.Errorf("got %d %s", r.code, r.body)
				return
			}
		}
	})
	reads, took := rangesOfEtcd(t)-before, time.Since(began)
	t.Logf("%v reads of etcd for %d requests", reads, requests)
	if most := 50 + 20*took.Seconds(); reads > most { // the server has reasons of its own to read
		t.Errorf("%v reads of etcd in %v", reads, took)
	}
}

// TestAttack_Echo: errors do not repeat whatever length a client has sent.
func TestAttack_Echo(t *testing.T) {
	s := apiservertest.Start(t)
	anybody := newClient(t, s.Anonymous())
	long := strings.Repeat("%3C", 80_000)
	for _, path := range []string{
		"/" + long,
		"/api/v1/" + long,
		"/apis/" + long + "/v1/" + long,
		"/api/v1/namespaces/" + long + "/pods/" + long,
		"/api/v1/namespaces/x/pods/" + long + "/log",
		"/api/v1/pods?limit=" + long,
		"/api/v1/pods?fieldSelector=" + long,
		"/api/v1/pods?labelSelector=" + long,
		"/api/v1/pods?resourceVersionMatch=" + long,
		"/readyz?verbose&exclude=" + long,
		"/healthz/" + long,
		"/version?" + long,
	} {
		name, _, _ := strings.Cut(path, long)
		t.Run(name, func(t *testing.T) {
			if r := anybody.get(path); len(r.body) > 64<<10 {
				t.Errorf("%d with %d bytes: %.100s", r.code, len(r.body), r.body)
			}
			r := anybody.get("/version", "Audit-Id: "+strings.Repeat("a", 100_000))
			if id := r.header.Get("Audit-Id"); r.code != 200 || len(id) != 64 {
				t.Errorf("%d, Audit-Id of %d bytes", r.code, len(id))
			}
		})
	}
}

// TestAttack_Seats: who does not read an answer does not keep the seats that it took. A level of one seat refuses a second request while they are kept.
func TestAttack_Seats(t *testing.T) {
	f := startFair(t)
	const mallory = "system:kube-scheduler" // the tests' authorizer knows few names
	f.level("one", mallory, flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject})
	large := strings.Repeat("x", 900_000)
	const collection = "/api/v1/namespaces/default/configmaps"
	for i := range 12 {
		if _, err := f.Clientset().CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d", i)}, Data: map[string]string{"large": large},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(t *testing.T) {
		t.Helper()
		for began := time.Now(); ; {
			resp := f.do(mallory, "GET", collection+"/absent", nil)
			if resp.StatusCode == http.StatusNotFound {
				t.Logf("served %v after the answer that nobody reads", time.Since(began).Round(time.Millisecond))
				return
			}
			if resp.StatusCode != http.StatusTooManyRequests || time.Since(began) > 20*time.Second {
				t.Fatalf("got %s after %v", resp.Status, time.Since(began))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for name, path := range map[string]string{"object": collection + "/large-0", "list": collection} {
		t.Run(name+" over h2", func(t *testing.T) {
			conn := dialTLS(t, f.Client(mallory), "h2")
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(timeout))
			framer := http2.NewFramer(conn, conn)
			var block bytes.Buffer
			enc := hpack.NewEncoder(&block)
			for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", path}} {
				if err := enc.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := io.WriteString(conn, http2.ClientPreface)
			if err := errors.Join(err, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}),
				framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})); err != nil {
				t.Fatal(err)
			}
			for {
				frame, err := framer.ReadFrame()
				if err != nil {
					t.Fatal(err)
				}
				if frame.Header().Type == http2.FrameHeaders {
					break // the answer has begun, and waits for the window
				}
			}
			answered(t)
		})
		t.Run(name+" over http/1.1", func(t *testing.T) {
			conn := dialTLS(t, f.Client(mallory), "http/1.1")
			defer conn.Close()
			if err := conn.NetConn().(*net.TCPConn).SetReadBuffer(4096); err != nil {
				t.Fatal(err)
			}
			conn.SetDeadline(time.Now().Add(timeout))
			go func() {
				for range 40 { // so many that the sockets' buffers do not take the answers
					if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
						return
					}
				}
			}()
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			for began := time.Now(); time.Since(began) < 3*time.Second; { // until the buffers are full
				f.do(mallory, "GET", collection+"/absent", nil)
			}
			answered(t)
		})
	}
}

// TestAttack_SlowBodies: who sends a body slowly keeps no seat while the server waits for it. With a level of one seat others wait for it, a quarter of
// the time that requests have.
func TestAttack_SlowBodies(t *testing.T) {
	f := startFair(t)
	const mallory = "system:kube-scheduler" // the tests' authorizer knows few names
	f.level("one", mallory, flowcontrolv1.LimitResponse{
		Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 50},
	})
	const collection = "/api/v1/namespaces/default/configmaps"
	start := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"`
	for _, proto := range []string{"http/1.1", "h2"} {
		for what, sent := range map[string]int{"nothing": 0, "a little": 100, "a window": 200 << 10, "nearly all": 1 << 20} {
			t.Run(what+" over "+proto, func(t *testing.T) {
				config := f.Client(mallory)
				config.NextProtos = []string{proto}
				c := newClient(t, config)
				body, feed := io.Pipe()
				defer feed.Close()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+collection, body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				answer := make(chan *http.Response, 1)
				go func() {
					resp, err := c.http.Do(req)
					if err != nil {
						t.Error(err)
						close(answer)
						return
					}
					answer <- resp
				}()
				name := strings.ReplaceAll(what+"-"+proto, " ", "-")
				name = strings.NewReplacer("/", "-").Replace(name)
				text := start + name + `"},"data":{"k":"` + strings.Repeat("x", max(sent-200, 0)) + `"}}`
				cut := min(sent, len(text)-1)
				if _, err := io.WriteString(feed, text[:cut]); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				for range 20 {
					if resp := f.do(mallory, "GET", collection+"/absent", nil); resp.StatusCode != http.StatusNotFound {
						t.Fatalf("got %s after %v", resp.Status, time.Since(began))
					}
				}
				t.Logf("20 others served after %v", time.Since(began).Round(time.Millisecond))
				if _, err := io.WriteString(feed, text[cut:]); err != nil { // slow clients are served, too
					t.Fatal(err)
				}
				feed.Close()
				resp, ok := <-answer
				if !ok {
					return
				}
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusCreated {
					t.Errorf("the slow request: %s", resp.Status)
				}
			})
		}
	}
}

// TestAttack_Handshakes: connections of strangers that do not come to the end of their handshake, or to a request, hold little, and the oldest go.
func TestAttack_Handshakes(t *testing.T) {
	const connections = 1500 // more than may wait
	s, _, _ := start(t)
	// A ClientHello as large as one may be, of which the last byte is missing, and what it begins with.
	hello := append([]byte{1, 0, 0xff, 0xf0, 3, 3}, make([]byte, 0xfff0-2)...)
	var records []byte
	for left := hello[:len(hello)-1]; len(left) > 0; {
		n := min(len(left), 16<<10)
		records = append(append(records, 22, 3, 1, byte(n>>8), byte(n)), left[:n]...)
		left = left[n:]
	}
	address := strings.TrimPrefix(s.URL, "https://")
	for _, tc := range []struct {
		name   string
		send   []byte
		memory uint64
	}{{"nothing", nil, 64 << 20}, {"half of a record", records[:8<<10], 96 << 20}, {"all but the end", records, 256 << 20}} {
		t.Run(tc.name, func(t *testing.T) {
			var conns []net.Conn
			defer func() {
				for _, conn := range conns {
					conn.Close()
				}
			}()
			attacktest.Budget{Memory: tc.memory, CPU: 20 * time.Second, Time: 5 * time.Minute}.Spend(t, func() {
				for range connections {
					conn, err := net.Dial("tcp", address)
					if err != nil {
						t.Error(err)
						return
					}
					conns = append(conns, conn)
					conn.SetDeadline(time.Now().Add(timeout))
					_, _ = conn.Write(tc.send) // the server may have closed it
				}
				// While they wait others are served, and each that comes puts one of the oldest out.
				first := make(chan struct{})
				go func() {
					_, _ = conns[0].Read(make([]byte, 1))
					close(first)
				}()
				for gone := false; !gone; {
					select {
					case <-first:
						gone = true
					case <-time.After(50 * time.Millisecond):
						if r := newClient(t, s.Admin()).get("/version"); r.code != 200 {
							t.Errorf("somebody else gets %d", r.code)
							return
						}
					}
				}
			})
		})
	}
}
