package serviceaccount

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"vigil/apiserver/authn"
	"vigil/apiserver/write"
	"vigil/internal/accounttoken"
	"vigil/kinds"
)

const issuer = "https://issuer.example.com"

// objects are what tokens are bound to, by resource/namespace/name.
type objects map[string]kinds.Object

func (o objects) Find(_ context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	if obj, ok := o[resource.Resource+"/"+namespace+"/"+name]; ok {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}

func (o objects) Newest(resource schema.GroupResource, namespace, name string) any {
	return o[resource.Resource+"/"+namespace+"/"+name]
}

// world is an issuer with a service account "bot" in namespace "ns", a pod of it on a node, and a secret.
type world struct {
	*Tokens
	t        testing.TB
	objects  objects
	now      time.Time
	warnings []string
}

func newWorld(t testing.TB, change func(c *Config)) *world {
	t.Helper()
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name + "-uid")}
	}
	w := &world{t: t, now: time.Unix(1_800_000_000, 0), objects: objects{
		"serviceaccounts/ns/bot": &corev1.ServiceAccount{ObjectMeta: named("ns", "bot")},
		"pods/ns/web":            &corev1.Pod{ObjectMeta: named("ns", "web"), Spec: corev1.PodSpec{ServiceAccountName: "bot", NodeName: "n1"}},
		"pods/ns/lost":           &corev1.Pod{ObjectMeta: named("ns", "lost"), Spec: corev1.PodSpec{ServiceAccountName: "bot", NodeName: "gone"}},
		"pods/ns/other":          &corev1.Pod{ObjectMeta: named("ns", "other"), Spec: corev1.PodSpec{ServiceAccountName: "default"}},
		"nodes//n1":              &corev1.Node{ObjectMeta: named("", "n1")},
		"secrets/ns/s":           &corev1.Secret{ObjectMeta: named("ns", "s")},
	}}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		SigningKeyFile: keyFile(t, key), Issuers: []string{issuer}, Audiences: []string{"api"}, ExternalAddress: "192.0.2.1:6443",
		Objects: w.objects, Now: func() time.Time { return w.now },
	}
	if change != nil {
		change(&c)
	}
	if w.Tokens, err = New(c); err != nil {
		t.Fatal(err)
	}
	return w
}

func keyFile(t testing.TB, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sa.key")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (w *world) post(spec authenticationv1.TokenRequestSpec, meta metav1.ObjectMeta) (*authenticationv1.TokenRequest, error) {
	if spec.ExpirationSeconds == nil {
		spec.ExpirationSeconds = new(int64(3600))
	}
	r := &write.Request{Warn: func(text string) { w.warnings = append(w.warnings, text) }}
	out, err := w.Issuer.Post(w.t.Context(), r, w.objects["serviceaccounts/ns/bot"], &authenticationv1.TokenRequest{ObjectMeta: meta, Spec: spec})
	if err != nil {
		return nil, err
	}
	return out.(*authenticationv1.TokenRequest), nil
}

func (w *world) token(spec authenticationv1.TokenRequestSpec) string {
	w.t.Helper()
	out, err := w.post(spec, metav1.ObjectMeta{})
	if err != nil {
		w.t.Fatal(err)
	}
	return out.Status.Token
}

func boundTo(kind, name string) *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name}
}

// payload returns the claims of a token, without the random ID, which there has to be.
func payload(t *testing.T, token string) map[string]any {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	if err := json.Unmarshal(data, &claims); err != nil {
		t.Fatal(err)
	}
	if claims["jti"] == "" || claims["jti"] == nil {
		t.Errorf("no jti in %s", data)
	}
	delete(claims, "jti")
	return claims
}

func TestIssuer_Claims(t *testing.T) {
	account := map[string]any{"name": "bot", "uid": "bot-uid"}
	pod, node := map[string]any{"name": "web", "uid": "web-uid"}, map[string]any{"name": "n1", "uid": "n1-uid"}
	const now = 1_800_000_000
	for _, tc := range []struct {
		name    string
		spec    authenticationv1.TokenRequestSpec
		life    float64
		aud     []any
		private map[string]any
	}{
		{"plain", authenticationv1.TokenRequestSpec{}, 3600, []any{"api"}, map[string]any{}},
		{"audiences", authenticationv1.TokenRequestSpec{Audiences: []string{"a", "b"}, ExpirationSeconds: new(int64(600))}, 600, []any{"a", "b"}, map[string]any{}},
		{"pod", authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web")}, 3600, []any{"api"}, map[string]any{"pod": pod, "node": node}},
		{
			"pod on a node that is gone", authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "lost")}, 3600, []any{"api"},
			map[string]any{"pod": map[string]any{"name": "lost", "uid": "lost-uid"}, "node": map[string]any{"name": "gone"}},
		},
		{"node", authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Node", "n1")}, 3600, []any{"api"}, map[string]any{"node": node}},
		{"secret", authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Secret", "s")}, 3600, []any{"api"}, map[string]any{"secret": map[string]any{"name": "s", "uid": "s-uid"}}},
		{
			"extended", authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web"), ExpirationSeconds: new(int64(3607))}, 31536000, []any{"api"},
			map[string]any{"pod": pod, "node": node, "warnafter": float64(now + 3607)},
		},
		{
			"not extended for others", authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web"), ExpirationSeconds: new(int64(3607)), Audiences: []string{"vault"}},
			3607, []any{"vault"}, map[string]any{"pod": pod, "node": node},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, nil)
			tc.private["namespace"], tc.private["serviceaccount"] = "ns", account
			want := map[string]any{
				"iss": issuer, "sub": "system:serviceaccount:ns:bot", "aud": tc.aud,
				"iat": float64(now), "nbf": float64(now), "exp": now + tc.life, "kubernetes.io": tc.private,
			}
			out, err := w.post(tc.spec, metav1.ObjectMeta{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, payload(t, out.Status.Token)); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
			if ends := out.Status.ExpirationTimestamp.Unix(); ends != now+*out.Spec.ExpirationSeconds {
				t.Errorf("expirationTimestamp %d", ends)
			}
			if out.Name != "bot" || out.Namespace != "ns" || out.UID != "bot-uid" {
				t.Errorf("metadata %+v", out.ObjectMeta)
			}
		})
	}
}

func TestIssuer_Refuses(t *testing.T) {
	w := newWorld(t, nil)
	otherUID := boundTo("Pod", "web")
	otherUID.UID = "x"
	for _, tc := range []struct {
		name string
		meta metav1.ObjectMeta
		to   *authenticationv1.BoundObjectReference
		code int32
		want string
	}{
		{"other name", metav1.ObjectMeta{Name: "x"}, nil, 422, `TokenRequest.authentication.k8s.io "bot" is invalid: metadata.name: Invalid value: "x": must match the service account name if specified`},
		{"other uid", metav1.ObjectMeta{UID: "x"}, nil, 409, `Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "bot": the UID in the token request (x) does not match the UID of the service account (bot-uid)`},
		{"no such pod", metav1.ObjectMeta{}, boundTo("Pod", "x"), 404, `pods "x" not found`},
		{"pod of another", metav1.ObjectMeta{}, boundTo("Pod", "other"), 400, `cannot bind token for serviceaccount "bot" to pod running with different serviceaccount name.`},
		{"other kind", metav1.ObjectMeta{}, boundTo("ConfigMap", "c"), 400, `cannot bind token to object of type /v1, Kind=ConfigMap`},
		{"other incarnation", metav1.ObjectMeta{}, otherUID, 409, `Operation cannot be fulfilled on Pod "web": the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := w.post(authenticationv1.TokenRequestSpec{BoundObjectRef: tc.to}, tc.meta)
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != tc.code || err.Error() != tc.want {
				t.Errorf("got %v\nwant %d %s", err, tc.code, tc.want)
			}
		})
	}
}

func TestIssuer_MaxExpiration(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxExpiration = time.Hour })
	out, err := w.post(authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(7200))}, metav1.ObjectMeta{})
	if err != nil {
		t.Fatal(err)
	}
	if *out.Spec.ExpirationSeconds != 3600 || payload(t, out.Status.Token)["exp"] != float64(1_800_003_600) {
		t.Errorf("got %+v", out)
	}
	if diff := cmp.Diff([]string{"requested expiration of 7200 seconds shortened to 3600 seconds"}, w.warnings); diff != "" {
		t.Error(diff)
	}
}

func TestVerifier(t *testing.T) {
	w := newWorld(t, nil)
	user, audiences, err := w.Verifier.AuthenticateToken(t.Context(), w.token(authenticationv1.TokenRequestSpec{
		BoundObjectRef: boundTo("Pod", "web"), Audiences: []string{"vault", "api"},
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if id := user.Extra["authentication.kubernetes.io/credential-id"]; len(id) != 1 || !strings.HasPrefix(id[0], "JTI=") {
		t.Errorf("credential-id %v", id)
	}
	delete(user.Extra, "authentication.kubernetes.io/credential-id")
	want := &authn.User{
		Name: "system:serviceaccount:ns:bot", UID: "bot-uid",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"},
		Extra: map[string][]string{
			"authentication.kubernetes.io/pod-name": {"web"}, "authentication.kubernetes.io/pod-uid": {"web-uid"},
			"authentication.kubernetes.io/node-name": {"n1"}, "authentication.kubernetes.io/node-uid": {"n1-uid"},
		},
	}
	if diff := cmp.Diff(want, user); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"api"}, audiences); diff != "" {
		t.Error(diff)
	}
}

// A token is as good as the clock and what it is bound to say.
func TestVerifier_Refuses(t *testing.T) {
	pod := authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web")}
	gone := func(path string) func(*world) { return func(w *world) { delete(w.objects, path) } }
	replaced := func(path string) func(*world) { return func(w *world) { w.objects[path].SetUID("new") } }
	deleted := func(path string, ago time.Duration) func(*world) {
		return func(w *world) { w.objects[path].SetDeletionTimestamp(&metav1.Time{Time: w.now.Add(-ago)}) }
	}
	later := func(d time.Duration) func(*world) { return func(w *world) { w.now = w.now.Add(d) } }
	for _, tc := range []struct {
		name   string
		spec   authenticationv1.TokenRequestSpec
		change func(w *world)
		want   string // "" is good
	}{
		{"just so", pod, func(*world) {}, ""},
		{"within the leeway", pod, later(time.Hour + 50*time.Second), ""},
		{"expired", pod, later(time.Hour + 2*time.Minute), "service account token has expired"},
		{"not yet", pod, later(-2 * time.Minute), "service account token is not valid yet"},
		{"no account", pod, gone("serviceaccounts/ns/bot"), `serviceaccounts "bot" not found`},
		{"another account", pod, replaced("serviceaccounts/ns/bot"), "service account UID (new) does not match claim (bot-uid)"},
		{"account long deleted", pod, deleted("serviceaccounts/ns/bot", 2*time.Minute), "service account ns/bot has been deleted"},
		{"no pod", pod, gone("pods/ns/web"), "service account token has been invalidated"},
		{"another pod", pod, replaced("pods/ns/web"), "pod UID (new) does not match service account pod ref claim (web-uid)"},
		{"pod ends", pod, deleted("pods/ns/web", 30*time.Second), ""},
		{"pod has ended", pod, deleted("pods/ns/web", 2*time.Minute), "service account token has been invalidated"},
		{"node of the pod", pod, gone("nodes//n1"), ""},
		{"no node", authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Node", "n1")}, gone("nodes//n1"), "service account token has been invalidated"},
		{"another node", authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Node", "n1")}, replaced("nodes//n1"), "node UID (new) does not match service account node ref claim (n1-uid)"},
		{"no secret", authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Secret", "s")}, gone("secrets/ns/s"), "service account token has been invalidated"},
		{"another secret", authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Secret", "s")}, replaced("secrets/ns/s"), "secret UID (new) does not match service account secret ref claim (s-uid)"},
		{"other audience", authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}}, func(*world) {}, `token audiences ["vault"] is invalid for the target audiences ["api"]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, nil)
			token := w.token(tc.spec)
			tc.change(w)
			_, _, err := w.Verifier.AuthenticateToken(t.Context(), token, nil)
			if got := text(err); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Tokens of an old key go on being good while the key is among those that are checked.
func TestVerifier_Keys(t *testing.T) {
	old, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	before := newWorld(t, func(c *Config) { c.SigningKeyFile = keyFile(t, old) })
	token := before.token(authenticationv1.TokenRequestSpec{})

	rotated := newWorld(t, func(c *Config) { c.KeyFiles = []string{keyFile(t, old), c.SigningKeyFile} })
	for name, token := range map[string]string{"old": token, "new": rotated.token(authenticationv1.TokenRequestSpec{})} {
		if _, _, err := rotated.Verifier.AuthenticateToken(t.Context(), token, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, _, err = newWorld(t, nil).Verifier.AuthenticateToken(t.Context(), token, nil)
	if text(err) != "invalid signature, no keys found" {
		t.Errorf("unknown key: %v", err)
	}
	parts := strings.Split(token, ".")
	parts[2] = strings.Repeat("A", len(parts[2]))
	if _, _, err := before.Verifier.AuthenticateToken(t.Context(), strings.Join(parts, "."), nil); err == nil || errors.Is(err, authn.ErrUnknownToken) {
		t.Errorf("broken signature: %v", err)
	}
	other := newWorld(t, func(c *Config) { c.Issuers = []string{"https://other.example.com"}; c.SigningKeyFile = keyFile(t, old) })
	for _, token := range []string{"", "x", "a.b.c", token} {
		if _, _, err := other.Verifier.AuthenticateToken(t.Context(), token, nil); !errors.Is(err, authn.ErrUnknownToken) {
			t.Errorf("token %q of nobody: %v", token, err)
		}
	}
}

func TestDocuments(t *testing.T) {
	get := func(w *world, path string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		w.Documents.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		return rec
	}
	w := newWorld(t, nil)
	config := get(w, ConfigPath)
	const want = `{"issuer":"https://issuer.example.com","jwks_uri":"https://192.0.2.1:6443/openid/v1/jwks","response_types_supported":["id_token"],` +
		`"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}`
	if config.Body.String() != want || config.Header().Get("Content-Type") != "application/json" || config.Header().Get("Cache-Control") != "public, max-age=3600" {
		t.Errorf("got %v %s", config.Header(), config.Body)
	}

	keys := get(w, KeysPath)
	if keys.Header().Get("Content-Type") != "application/jwk-set+json" {
		t.Errorf("content type %s", keys.Header().Get("Content-Type"))
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(keys.Body.Bytes(), &set); err != nil || len(set.Keys) != 1 || !set.Keys[0].IsPublic() {
		t.Fatalf("%v: %s", err, keys.Body)
	}
	token, err := jose.ParseSigned(w.token(authenticationv1.TokenRequestSpec{}), accounttoken.Algorithms)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := token.Verify(set.Keys[0].Key); err != nil || token.Signatures[0].Header.KeyID != set.Keys[0].KeyID {
		t.Errorf("the published key does not check tokens: %v", err)
	}

	plain := newWorld(t, func(c *Config) { c.Issuers = []string{"http://plain.example.com"} })
	if code := get(plain, ConfigPath).Code; code != http.StatusNotFound {
		t.Errorf("configuration of an issuer without TLS: %d", code)
	}
}

// finding counts how often objects are looked at.
type finding struct {
	objects
	found int
}

func (f *finding) Find(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	f.found++
	return f.objects.Find(ctx, resource, namespace, name)
}

// A token that was good is checked by what may have changed only, and notices when that has.
func TestVerifier_Again(t *testing.T) {
	var f *finding
	w := newWorld(t, func(c *Config) {
		f = &finding{objects: c.Objects.(objects)}
		c.Objects = f
	})
	token := w.token(authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web")})
	check := func() error {
		_, _, err := w.Verifier.AuthenticateToken(t.Context(), token, nil)
		return err
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
	before := f.found
	for range 10 {
		if err := check(); err != nil {
			t.Fatal(err)
		}
	}
	if f.found != before {
		t.Errorf("objects that are the same were looked at %d times", f.found-before)
	}
	if n := testing.AllocsPerRun(100, func() { _ = check() }); n > 2 {
		t.Errorf("%v allocations for a token that is known", n)
	}
	pod := w.objects["pods/ns/web"].(*corev1.Pod).DeepCopy()
	pod.UID = "new"
	w.objects["pods/ns/web"] = pod
	if err := check(); text(err) != "pod UID (new) does not match service account pod ref claim (web-uid)" {
		t.Errorf("the pod was replaced: %v", err)
	}
	delete(w.objects, "pods/ns/web")
	if err := check(); text(err) != "service account token has been invalidated" {
		t.Errorf("the pod is gone: %v", err)
	}
	if _, _, err := w.Verifier.AuthenticateToken(t.Context(), token, []string{"vault"}); err == nil {
		t.Error("a known token is good for others")
	}
	w.now = w.now.Add(2 * time.Hour)
	if err := check(); text(err) != "service account token has expired" {
		t.Errorf("the time is up: %v", err)
	}
}

// BenchmarkVerifier is a token of a pod that comes again, and one that comes for the first time.
func BenchmarkVerifier(b *testing.B) {
	w := newWorld(b, nil)
	token := w.token(authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web")})
	for _, bm := range []struct {
		name   string
		forget bool
	}{{"known", false}, {"new", true}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if bm.forget {
					w.Verifier.known.young, w.Verifier.known.old = nil, nil
				}
				if _, _, err := w.Verifier.AuthenticateToken(b.Context(), token, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
