package apiserver_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver"
	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/pki"
)

// telling lets everybody ask who they are, administrators do everything, and user joe be service accounts.
type telling struct{}

func (telling) Authorize(_ context.Context, a *authz.Attributes) (bool, string, error) {
	return a.User.InGroup(authn.GroupMasters) || a.Resource == "selfsubjectreviews" && a.Verb == "create" ||
		a.User.Name == "joe" && a.Verb == "impersonate" && a.Resource == "serviceaccounts", "", nil
}

func whoami(t *testing.T, c *client, header ...string) (int, authenticationv1.UserInfo) {
	t.Helper()
	r := c.do("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`, append(header, "Content-Type: application/json")...)
	if r.code != 201 {
		return r.code, authenticationv1.UserInfo{}
	}
	var review authenticationv1.SelfSubjectReview
	r.code = 200
	r.into(&review)
	return 201, review.Status.UserInfo
}

func TestAuthentication(t *testing.T) {
	dir := t.TempDir()
	proxies, err := pki.NewAuthority("front-proxy-ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"proxy.crt": string(proxies.CertPEM()), "tokens.csv": "st4tic,ann,7,\"devs,ops\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, admin, cs := start(t, func(c *apiserver.Config) {
		c.Authorizer = telling{}
		c.Authentication = apiserver.Authentication{
			TokenFile: filepath.Join(dir, "tokens.csv"), BootstrapTokens: true,
			Proxy: authn.Proxy{
				CAFile: filepath.Join(dir, "proxy.crt"), AllowedNames: []string{"front"}, UsernameHeaders: []string{"X-Remote-User"},
				GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
			},
		}
	})
	if _, err := cs.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	front, err := proxies.Issue(pki.Subject{CommonName: "front", Client: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, // the client's side is what is tested
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{front.Cert.Raw}, PrivateKey: front.Key}, nil
		},
	}}
	defer transport.CloseIdleConnections()
	proxy := &client{t: t, http: &http.Client{Transport: transport}, url: s.URL}
	joe, anonymous := newClient(t, s.Client("joe", "devs")), newClient(t, s.Anonymous())

	for _, tc := range []struct {
		name   string
		who    *client
		header []string
		user   string
		groups []string
	}{
		{"certificate", joe, nil, "joe", []string{"devs", "system:authenticated"}},
		{"nothing", anonymous, nil, "system:anonymous", []string{"system:unauthenticated"}},
		{"static token", anonymous, []string{"Authorization: Bearer st4tic"}, "ann", []string{"devs", "ops", "system:authenticated"}},
		{"bootstrap token", anonymous, []string{"Authorization: Bearer abcdef.0123456789abcdef"}, "system:bootstrap:abcdef", []string{"system:bootstrappers", "system:authenticated"}},
		{"proxy", proxy, []string{"X-Remote-User: eve", "X-Remote-Group: a"}, "eve", []string{"a", "system:authenticated"}},
		{"proxy for another, on the same connection", proxy, []string{"X-Remote-User: bob"}, "bob", []string{"system:authenticated"}},
		{"administrator as somebody", admin, []string{"Impersonate-User: ann", "Impersonate-Group: g"}, "ann", []string{"g", "system:authenticated"}},
		{"joe as a service account", joe, []string{"Impersonate-User: system:serviceaccount:ns:bot"}, "system:serviceaccount:ns:bot", []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"}},
		{"proxy whose user is somebody", proxy, []string{"X-Remote-User: joe", "Impersonate-User: system:serviceaccount:ns:bot"}, "system:serviceaccount:ns:bot", []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"}},
	} {
		code, user := whoami(t, tc.who, tc.header...)
		if code != 201 || user.Username != tc.user || !slices.Equal(user.Groups, tc.groups) {
			t.Errorf("%s: got %d %+v, want %s %s", tc.name, code, user, tc.user, tc.groups)
		}
	}
	for name, header := range map[string]string{"unknown token": "Authorization: Bearer x", "wrong bootstrap token": "Authorization: Bearer abcdef.0123456789abcdee"} {
		if code, _ := whoami(t, anonymous, header); code != 401 {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code, _ := whoami(t, proxy); code != 401 { // its authority signs no clients of this server
		t.Errorf("proxy for nobody: %d", code)
	}
	if code, _ := whoami(t, joe, "Impersonate-User: ann"); code != 403 {
		t.Errorf("joe as ann: %d", code)
	}
	scrape := string(admin.get("/metrics").body)
	for _, want := range []string{`authenticated_user_requests{username="admin"}`, `authentication_attempts{result="error"} 3`} {
		if !strings.Contains(scrape, want) {
			t.Errorf("metrics lack %s", want)
		}
	}

	review := func(token string, audiences ...string) authenticationv1.TokenReviewStatus {
		t.Helper()
		out, err := cs.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out.Status
	}
	if got := review("st4tic"); !got.Authenticated || got.User.Username != "ann" || !slices.Equal(got.Audiences, []string{"https://kubernetes.default.svc.cluster.local"}) {
		t.Errorf("TokenReview of a static token: %+v", got)
	}
	if got := review("st4tic", "vault"); got.Authenticated {
		t.Errorf("TokenReview for others: %+v", got)
	}
}

func TestAuthentication_NoAnonymous(t *testing.T) {
	s, _, _ := start(t, func(c *apiserver.Config) { c.Authentication.NoAnonymous = true })
	r := newClient(t, s.Anonymous()).get("/healthz")
	if r.code != 401 || r.status().Message != "Unauthorized" || r.status().Reason != "Unauthorized" {
		t.Errorf("got %d %s", r.code, r.body)
	}
}
