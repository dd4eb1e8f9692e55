package apiserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/audit"
	"vigil/internal/accounttoken"
	"vigil/internal/eventually"
)

// tokenKey makes a key of service account tokens.
func tokenKey(t *testing.T) (file string, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "sa.key")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, key
}

// TestLegacyTokens: the token of a Secret, as a cluster that was taken over has it, is good as long as the Secret holds it, its service
// account is the same and nobody has marked it invalid. Its use is written into the Secret.
func TestLegacyTokens(t *testing.T) {
	t.Parallel()
	file, key := tokenKey(t)
	s := apiservertest.Start(t, func(c *apiserver.Config) { c.Tokens.SigningKeyFile = file })
	cs, ctx := s.Clientset(), t.Context()
	if _, err := cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account, err := cs.CoreV1().ServiceAccounts("ns").Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "bot"}, Secrets: []corev1.ObjectReference{{Name: "listed"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := accounttoken.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(c accounttoken.LegacyClaims) string {
		t.Helper()
		token, err := accounttoken.SignLegacy(signer, c)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	claims := func(secret string) accounttoken.LegacyClaims {
		return accounttoken.LegacyClaims{Namespace: "ns", Secret: secret, Account: "bot", AccountUID: string(account.UID)}
	}
	// made makes a Secret with a token, changed before it is stored.
	made := func(name string, change func(*corev1.Secret)) string {
		t.Helper()
		token := sign(claims(name))
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{corev1.ServiceAccountNameKey: "bot"}},
			Type:       corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(token)},
		}
		if change != nil {
			change(secret)
		}
		if _, err := cs.CoreV1().Secrets("ns").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return token
	}
	// use shows a token to the server, and returns the status and the warnings.
	use := func(token string) (int, []string) {
		t.Helper()
		config := s.Anonymous()
		config.BearerToken = token
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		response, err := client.Get(s.URL + "/version")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode, response.Header["Warning"]
	}
	label := func(secret, name string) string {
		t.Helper()
		got, err := cs.CoreV1().Secrets("ns").Get(ctx, secret, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Labels[name]
	}

	manual, listed := made("manual", nil), made("listed", nil)
	before := time.Now().UTC().Format(time.DateOnly)
	var requests sync.WaitGroup
	for range 20 { // of which one writes
		requests.Go(func() {
			if code, warnings := use(manual); code != http.StatusOK || len(warnings) != 0 {
				t.Errorf("token of a Secret that a person made: %d, warnings %q", code, warnings)
			}
		})
	}
	requests.Wait()
	if day := label("manual", accounttoken.LastUsedLabel); day != before && day != time.Now().UTC().Format(time.DateOnly) {
		t.Errorf("last used on %q, want %s", day, before)
	}
	for range 2 { // looked up, and known
		code, warnings := use(listed)
		if code != http.StatusOK || len(warnings) != 1 || !strings.Contains(warnings[0], "Use tokens from the TokenRequest API or manually created secret-based tokens instead") {
			t.Errorf("token of a Secret that the account lists: %d, warnings %q", code, warnings)
		}
	}
	review, err := cs.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: manual}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated || review.Status.User.Username != "system:serviceaccount:ns:bot" || review.Status.User.UID != string(account.UID) ||
		fmt.Sprint(review.Status.User.Groups) != "[system:serviceaccounts system:serviceaccounts:ns system:authenticated]" || len(review.Status.User.Extra) != 0 {
		t.Errorf("review: %+v, %v", review.Status, err)
	}

	refused := map[string]string{
		"without a Secret":    sign(claims("nowhere")),
		"of another Secret's": sign(accounttoken.LegacyClaims{Namespace: "ns", Secret: "manual", Account: "bot", AccountUID: "another"}),
		"of an account of that name gone": made("old", func(s *corev1.Secret) {
			s.Data["token"] = []byte(sign(accounttoken.LegacyClaims{Namespace: "ns", Secret: "old", Account: "bot", AccountUID: "gone"}))
		}),
		"without a namespace":           sign(accounttoken.LegacyClaims{Secret: "manual", Account: "bot", AccountUID: string(account.UID)}),
		"marked invalid":                made("marked", func(s *corev1.Secret) { s.Labels[accounttoken.InvalidSinceLabel] = "2024-01-01" }),
		"signed by nobody whom we know": made("forged", nil)[:20] + "x" + made("forged2", nil)[21:],
	}
	_, stranger := tokenKey(t)
	if signer, err = accounttoken.NewSigner(stranger); err != nil {
		t.Fatal(err)
	}
	refused["with another's signature"] = made("strange", nil)
	for name, token := range refused {
		if code, _ := use(token); code != http.StatusUnauthorized {
			t.Errorf("token %s: %d, want 401", name, code)
		}
	}
	if label("marked", accounttoken.LastUsedLabel) == "" {
		t.Error("the use of a token that is marked invalid is not written down: nobody would know that somebody needs it")
	}
	// The mark is removed, and the token good again.
	secret, err := cs.CoreV1().Secrets("ns").Get(ctx, "marked", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(secret.Labels, accounttoken.InvalidSinceLabel)
	if _, err := cs.CoreV1().Secrets("ns").Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the token is good again", func() bool { code, _ := use(refused["marked invalid"]); return code == http.StatusOK })

	// Without its Secret the token is none, nor is that of an account that has gone and come back.
	if err := cs.CoreV1().Secrets("ns").Delete(ctx, "manual", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "a token without its Secret is refused", func() bool { code, _ := use(manual); return code == http.StatusUnauthorized })
	if err := cs.CoreV1().ServiceAccounts("ns").Delete(ctx, "bot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.CoreV1().ServiceAccounts("ns").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the token of another incarnation is refused", func() bool { code, _ := use(listed); return code == http.StatusUnauthorized })
}

// TestLegacyTokens_Seen: who uses a token of a Secret, or one that a pod should have renewed, is seen in the audit log and in the metrics.
func TestLegacyTokens_Seen(t *testing.T) {
	t.Parallel()
	file, key := tokenKey(t)
	seen := newCollector(t, nil)
	auditor, err := audit.New(audit.Config{
		PolicyFile: writeFile(t, "policy.yaml", policyHead+"rules: [{level: Metadata, nonResourceURLs: [/version]}]\n"),
		Webhook:    audit.WebhookConfig{ConfigFile: seen.kubeconfig(t), Queue: audit.Queue{Mode: audit.Blocking}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := apiservertest.Start(t, func(c *apiserver.Config) { c.Tokens.SigningKeyFile, c.Auditor = file, auditor })
	cs, ctx := s.Clientset(), t.Context()
	namespace(t, cs, "ns")
	account, err := cs.CoreV1().ServiceAccounts("ns").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot"}, Secrets: []corev1.ObjectReference{{Name: "listed"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := accounttoken.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	counters := func() map[string]string {
		text, err := cs.RESTClient().Get().RequestURI("/metrics").DoRaw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]string{}
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "serviceaccount_"); ok {
				name, value, _ := strings.Cut(strings.TrimSpace(name), " ")
				have[name] = value
			}
		}
		return have
	}
	want := map[string]string{"valid_tokens_total": "0", "stale_tokens_total": "0", "legacy_tokens_total": "0", "legacy_auto_token_uses_total": "0", "legacy_manual_token_uses_total": "0", "invalid_legacy_auto_token_uses_total": "0"}
	check := func(after string) {
		t.Helper()
		if have := counters(); !maps.Equal(have, want) {
			t.Errorf("after %s: %v, want %v", after, have, want)
		}
	}
	check("nothing")
	for _, tc := range []struct {
		secret   string
		invalid  bool
		code     int
		key      string // of the audit annotation
		counters []string
	}{
		{"manual", false, 200, "authentication.k8s.io/legacy-token-manual-secret", []string{"legacy_tokens_total", "legacy_manual_token_uses_total"}},
		{"listed", false, 200, "authentication.k8s.io/legacy-token-autogenerated-secret", []string{"legacy_tokens_total", "legacy_auto_token_uses_total"}},
		{"marked", true, 401, "", []string{"legacy_tokens_total", "invalid_legacy_auto_token_uses_total"}},
	} {
		token, err := accounttoken.SignLegacy(signer, accounttoken.LegacyClaims{Namespace: "ns", Secret: tc.secret, Account: "bot", AccountUID: string(account.UID)})
		if err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: tc.secret, Annotations: map[string]string{corev1.ServiceAccountNameKey: "bot"}},
			Type:       corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(token)},
		}
		if tc.invalid {
			secret.Labels = map[string]string{accounttoken.InvalidSinceLabel: "2024-01-01"}
		}
		if _, err := cs.CoreV1().Secrets("ns").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		config := s.Anonymous()
		config.BearerToken = token
		client := newClient(t, config)
		if r := client.get("/version"); r.code != tc.code {
			t.Errorf("%s: got %d, want %d", tc.secret, r.code, tc.code)
		}
		for _, name := range tc.counters {
			n, err := strconv.Atoi(want[name])
			if err != nil {
				t.Fatal(err)
			}
			want[name] = strconv.Itoa(n + 1)
		}
		check(tc.secret)
		seen.wait(t, 1, func(e auditv1.Event) bool {
			if e.ResponseStatus == nil || int(e.ResponseStatus.Code) != tc.code {
				return false
			}
			if tc.key == "" {
				return e.Stage == auditv1.StageResponseStarted // as upstream's of callers who are not known
			}
			return e.Stage == auditv1.StageResponseComplete && e.Annotations[tc.key] == tc.secret && e.User.Username == "system:serviceaccount:ns:bot"
		})
	}
}
