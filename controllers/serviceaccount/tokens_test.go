package serviceaccount_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver"
	"vigil/controllers/internal/controllertest"
	"vigil/controllers/serviceaccount"
	"vigil/internal/accounttoken"
)

func tokenSecret(namespace, name, account string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
}

// TestTokens: a Secret gets a token that the API server accepts, loses nothing that it has, goes with its service account, and is taken
// off the account's list when it goes first.
func TestTokens(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sa.key")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	env := controllertest.Start(t, func(c *apiserver.Config) { c.Tokens.SigningKeyFile = file })
	const ca = "-----BEGIN CERTIFICATE-----\nroot\n-----END CERTIFICATE-----\n"
	c, err := serviceaccount.NewTokens(serviceaccount.TokensConfig{Client: env.Client, Informers: env.Informers, Key: key, RootCA: []byte(ca), Logger: env.Logger})
	if err != nil {
		t.Fatal(err)
	}
	core, ctx := env.Client.CoreV1(), t.Context()
	secrets, accounts := core.Secrets("default"), core.ServiceAccounts("default")
	bot, err := accounts.Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "bot"}, Secrets: []corev1.ObjectReference{{Name: "mine"}, {Name: "other"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := tokenSecret("default", "before", "bot")
	before.Data = map[string][]byte{"token": []byte("kept"), "ca.crt": []byte("old"), "more": []byte("x")}
	orphan, stale := tokenSecret("default", "orphan", "nobody"), tokenSecret("default", "stale", "bot")
	stale.Annotations[corev1.ServiceAccountUIDKey] = "gone"
	opaque := tokenSecret("default", "opaque", "bot")
	opaque.Type = corev1.SecretTypeOpaque
	for _, s := range []*corev1.Secret{before, orphan, stale, opaque} {
		if _, err := secrets.Create(ctx, s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	env.Run(c.Run)
	if _, err := secrets.Create(ctx, tokenSecret("default", "mine", "bot"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	filled := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			s, err := secrets.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if string(s.Data["ca.crt"]) != ca || string(s.Data["namespace"]) != "default" || len(s.Data["token"]) == 0 || s.Annotations[corev1.ServiceAccountUIDKey] != string(bot.UID) {
				return fmt.Errorf("secret %s: annotations %v, data %q", name, s.Annotations, s.Data)
			}
			return nil
		}
	}
	missing := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			if _, err := secrets.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("secret %s: %v, want not found", name, err)
			}
			return nil
		}
	}
	env.Eventually(filled("mine"))
	env.Eventually(filled("before"))
	env.Eventually(missing("orphan"))
	env.Eventually(missing("stale"))
	if s, err := secrets.Get(ctx, "before", metav1.GetOptions{}); err != nil || string(s.Data["token"]) != "kept" || string(s.Data["more"]) != "x" {
		t.Errorf("what a secret had: %q, %v", s.Data, err)
	}
	if s, err := secrets.Get(ctx, "opaque", metav1.GetOptions{}); err != nil || len(s.Data) != 0 {
		t.Errorf("a secret of another type: %q, %v", s.Data, err)
	}

	mine, err := secrets.Get(ctx, "mine", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	review, err := env.Client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: string(mine.Data["token"])}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated || review.Status.User.Username != "system:serviceaccount:default:bot" || review.Status.User.UID != string(bot.UID) {
		t.Errorf("the token is not accepted: %+v, %v", review.Status, err)
	}

	// Who takes the token out gets another one, and who spoils the certificates gets them back.
	delete(mine.Data, "token")
	mine.Data["ca.crt"] = []byte("spoilt")
	mine.ResourceVersion = ""
	if _, err := secrets.Update(ctx, mine, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(filled("mine"))

	// Only the Secret that has gone leaves the account's list.
	if err := secrets.Delete(ctx, "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(func(ctx context.Context) error {
		now, err := accounts.Get(ctx, "bot", metav1.GetOptions{})
		if err != nil || len(now.Secrets) != 1 || now.Secrets[0].Name != "other" {
			return fmt.Errorf("secrets of the account: %v, %v", now.Secrets, err)
		}
		return nil
	})

	// With the account its Secrets go, also when another of that name takes its place at once.
	if err := accounts.Delete(ctx, "bot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(missing("before"))
}

// TestCleaner: of tokens that were made for service accounts those are marked, and a period later deleted, that were not used since the
// API server has watched their use.
func TestCleaner(t *testing.T) {
	env := controllertest.Start(t)
	core, ctx := env.Client.CoreV1(), t.Context()
	env.Namespace("kube-system")
	var now time.Time
	c := serviceaccount.NewCleaner(serviceaccount.CleanerConfig{Client: env.Client, Informers: env.Informers, Logger: env.Logger, Now: func() time.Time { return now }})

	today := time.Now().UTC()
	day := func(after int) string { return today.AddDate(0, 0, after).Format(time.DateOnly) }
	listed := []string{"unused", "used", "unreadable", "mounted", "in-environment", "marked-lately", "marked-long-ago", "marked-and-used"}
	var refs []corev1.ObjectReference
	for _, name := range listed {
		refs = append(refs, corev1.ObjectReference{Name: name})
	}
	if _, err := core.ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot"}, Secrets: refs}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labels := map[string]map[string]string{
		"used":            {accounttoken.LastUsedLabel: day(30)},
		"unreadable":      {accounttoken.LastUsedLabel: "yesterday"},
		"marked-lately":   {accounttoken.InvalidSinceLabel: day(200)},
		"marked-long-ago": {accounttoken.InvalidSinceLabel: day(1)},
		"marked-and-used": {accounttoken.InvalidSinceLabel: day(1), accounttoken.LastUsedLabel: day(300)},
	}
	for _, name := range append(listed, "manual") {
		secret := tokenSecret("default", name, "bot")
		secret.Labels = labels[name]
		if _, err := core.Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	container := corev1.Container{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "T", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "in-environment"}, Key: "token",
	}}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{container}, Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}}},
	}}
	if _, err := core.Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tracking := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: accounttoken.TrackingConfigMap}, Data: map[string]string{"since": day(0)}}
	if _, err := core.ConfigMaps("kube-system").Create(ctx, tracking, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// have is what there is: each Secret with the day since which it is invalid.
	have := func(ctx context.Context) map[string]string {
		list, err := core.Secrets("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, s := range list.Items {
			found[s.Name] = s.Labels[accounttoken.InvalidSinceLabel]
		}
		return found
	}
	want := have(ctx)
	env.Run()
	if err := env.Informers.WaitForSync(ctx); err != nil { // the cleaner knows which Secrets pods use
		t.Fatal(err)
	}
	clean := func(after int) {
		t.Helper()
		now = today.AddDate(0, 0, after)
		env.Eventually(func(ctx context.Context) error {
			if err := c.Clean(ctx); err != nil {
				return err
			}
			if got := have(ctx); fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("after %d days\n have %v\n want %v", after, got, want)
			}
			return nil
		})
	}
	clean(364) // not watched for a year yet
	want["unused"], want["used"] = day(380), ""
	delete(want, "marked-long-ago")
	clean(380) // "used" was used less than a year ago
	want["used"] = day(400)
	clean(400)
	delete(want, "marked-lately")
	clean(600)
	delete(want, "marked-and-used")
	clean(700)
	delete(want, "unused")
	delete(want, "used")
	clean(800)
}
