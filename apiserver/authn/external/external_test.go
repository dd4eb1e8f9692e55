package external_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"

	"vigil/apiserver/authn"
	"vigil/apiserver/authn/external"
	"vigil/internal/eventually"
)

// issuer is an OpenID Connect provider.
type issuer struct {
	*httptest.Server
	t      *testing.T
	key    *rsa.PrivateKey
	caFile string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["RS256"]}`, i.URL, i.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"}}})
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	i.caFile = filepath.Join(t.TempDir(), "ca.crt")
	write(t, i.caFile, string(i.ca()))
	return i
}

func (i *issuer) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
}

// token signs the standard claims, with others put over them.
func (i *issuer) token(claims map[string]any) string {
	i.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.key, KeyID: "k"}}, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	all := map[string]any{"iss": i.URL, "aud": "vigil", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix(), "groups": []string{"devs"}}
	for k, v := range claims {
		all[k] = v
	}
	token, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run makes tokens and runs them until the test ends.
func run(t *testing.T, config external.Config) *external.Tokens {
	t.Helper()
	config.Audiences, config.Issuers = []string{"api"}, []string{"https://kubernetes.default.svc"}
	tokens, err := external.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := tokens.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(stop)
	return tokens
}

// knows waits until a token is known, and returns whose it is.
func knows(t *testing.T, tokens *external.Tokens, token string) *authn.User {
	t.Helper()
	var user *authn.User
	eventually.Nil(t, "the token is known", func() (err error) {
		user, _, err = tokens.AuthenticateToken(t.Context(), token, nil)
		return err
	})
	return user
}

func TestOIDC(t *testing.T) {
	i := newIssuer(t)
	tokens := run(t, external.Config{OIDC: external.OIDC{
		IssuerURL: i.URL, ClientID: "vigil", CAFile: i.caFile, GroupsClaim: "groups", GroupsPrefix: "oidc:", RequiredClaims: map[string]string{"hd": "example.com"},
	}})
	hd := map[string]any{"hd": "example.com"}
	want := &authn.User{Name: i.URL + "#ann", Groups: []string{"oidc:devs", "system:authenticated"}}
	if diff := cmp.Diff(want, knows(t, tokens, i.token(hd)), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	for name, claims := range map[string]map[string]any{
		"without the claim": {}, "other audience": {"hd": "example.com", "aud": "x"}, "expired": {"hd": "example.com", "exp": 1}, "other issuer": {"hd": "example.com", "iss": "https://x"},
	} {
		if user, _, err := tokens.AuthenticateToken(t.Context(), i.token(claims), nil); err == nil {
			t.Errorf("%s: %+v", name, user)
		}
	}
	if _, _, err := tokens.AuthenticateToken(t.Context(), "x", nil); !errors.Is(err, authn.ErrUnknownToken) {
		t.Errorf("what is no token: %v", err)
	}
}

func TestAuthenticationConfiguration(t *testing.T) {
	first, second := newIssuer(t), newIssuer(t)
	config := func(i *issuer, anonymous string) string {
		return fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous: %s
jwt:
- issuer:
    url: %s
    audiences: [vigil]
    certificateAuthority: %q
  claimMappings:
    username: {expression: '"sso:" + claims.sub'}
    groups: {expression: claims.groups}
  userValidationRules:
  - {expression: "!user.username.startsWith('system:')", message: reserved}
`, anonymous, i.URL, i.ca())
	}
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	write(t, file, config(first, "{enabled: true, conditions: [{path: /healthz}]}"))
	var anonymous atomic.Pointer[string]
	tokens := run(t, external.Config{File: file, Anonymous: func(enabled bool, paths []string) {
		text := fmt.Sprint(enabled, paths)
		anonymous.Store(&text)
	}})
	if got := *anonymous.Load(); got != "true [/healthz]" {
		t.Errorf("anonymous requests: %s", got)
	}
	if user := knows(t, tokens, first.token(nil)); user.Name != "sso:ann" {
		t.Errorf("got %+v", user)
	}
	write(t, file, "nonsense") // is not taken over
	write(t, file, config(second, "{enabled: false}"))
	if user := knows(t, tokens, second.token(map[string]any{"sub": "bob"})); user.Name != "sso:bob" {
		t.Errorf("got %+v", user)
	}
	if _, _, err := tokens.AuthenticateToken(t.Context(), first.token(map[string]any{"sub": "eve"}), nil); err == nil {
		t.Error("an issuer that is gone is good")
	}
	if got := *anonymous.Load(); got != "false []" {
		t.Errorf("anonymous requests: %s", got)
	}
}

func TestNew_Refuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	for name, tc := range map[string]struct {
		text   string
		config external.Config
		want   string
	}{
		"both":           {"x", external.Config{File: file, OIDC: external.OIDC{IssuerURL: "https://x", ClientID: "y"}}, "authentication-config file and oidc-* flags are mutually exclusive"},
		"half":           {"", external.Config{OIDC: external.OIDC{IssuerURL: "https://x"}}, "oidc-issuer-url and oidc-client-id must be specified together"},
		"plain text":     {"", external.Config{OIDC: external.OIDC{IssuerURL: "http://x", ClientID: "y"}}, "URL scheme must be https"},
		"our own issuer": {"", external.Config{Issuers: []string{"https://x"}, OIDC: external.OIDC{IssuerURL: "https://x", ClientID: "y"}}, "URL must not overlap with disallowed issuers"},
		"empty":          {"", external.Config{File: file}, "empty config data"},
		"unknown field":  {"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nx: 1\n", external.Config{File: file}, `unknown field "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, file, tc.text)
			if _, err := external.New(tc.config); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
		})
	}
}

func TestWebhook(t *testing.T) {
	var asked atomic.Int64
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: review.Spec.Token == "good", User: authenticationv1.UserInfo{Username: "ann", UID: "7", Groups: []string{"devs"}}}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(review)
	}))
	defer hook.Close()
	file := filepath.Join(t.TempDir(), "hook.conf")
	ca := filepath.Join(t.TempDir(), "ca.crt")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})))
	write(t, file, fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":%q,"certificate-authority":%q}}],"users":[{"name":"x","user":{}}],"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],"current-context":"x"}`, hook.URL, ca))
	tokens := run(t, external.Config{WebhookFile: file, WebhookVersion: "v1"})
	for range 3 {
		user, _, err := tokens.AuthenticateToken(t.Context(), "good", nil)
		if err != nil || user.Name != "ann" || user.UID != "7" || !cmp.Equal(user.Groups, []string{"devs", "system:authenticated"}) {
			t.Errorf("got %+v, %v", user, err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if _, _, err := tokens.AuthenticateToken(t.Context(), "bad", nil); err == nil {
		t.Error("a bad token is known")
	}
}
