package bootstraptoken_test

import (
	"context"
	"errors"
	"testing"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/controllers/bootstraptoken"
	"vigil/controllers/internal/controllertest"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

func token(id string, change map[string]string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id, Namespace: "kube-system"},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"},
	}
	for key, value := range change {
		s.StringData[key] = value
	}
	return s
}

func create(t *testing.T, env *controllertest.Env, secrets ...*corev1.Secret) {
	t.Helper()
	for _, s := range secrets {
		if _, err := env.Client.CoreV1().Secrets("kube-system").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTokenCleaner(t *testing.T) {
	env := controllertest.Start(t)
	env.Namespace("kube-system")
	soon := time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)
	create(t, env,
		token("aaaaaa", map[string]string{"expiration": "2020-01-01T00:00:00Z"}), token("bbbbbb", map[string]string{"expiration": soon}),
		token("cccccc", map[string]string{"expiration": "2099-01-01T00:00:00Z"}), token("dddddd", nil))
	env.Run(bootstraptoken.NewTokenCleaner(bootstraptoken.Config{Client: env.Client, Informers: env.Informers, Logger: env.Logger}).Run)
	env.Eventually(func(ctx context.Context) error {
		for _, id := range []string{"aaaaaa", "bbbbbb"} {
			if _, err := env.Client.CoreV1().Secrets("kube-system").Get(ctx, "bootstrap-token-"+id, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return errors.New("token " + id + " has ended and is there")
			}
		}
		return nil
	})
	for _, id := range []string{"cccccc", "dddddd"} {
		if _, err := env.Client.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-"+id, metav1.GetOptions{}); err != nil {
			t.Errorf("token %s: %v", id, err)
		}
	}
}

func TestSigner(t *testing.T) {
	env := controllertest.Start(t)
	env.Namespace("kube-system")
	const content = "apiVersion: v1\nkind: Config\n"
	info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: bootstraptoken.ClusterInfo}, Data: map[string]string{bootstraptoken.KubeconfigKey: content, "jws-kubeconfig-zzzzzz": "stale"}}
	if _, err := env.Client.CoreV1().ConfigMaps("kube-public").Create(t.Context(), info, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create(t, env, token("aaaaaa", nil), token("bbbbbb", map[string]string{"usage-bootstrap-signing": "false"}), token("cccccc", map[string]string{"expiration": "2020-01-01T00:00:00Z"}))
	env.Run(bootstraptoken.NewSigner(bootstraptoken.Config{Client: env.Client, Informers: env.Informers, Logger: env.Logger}).Run)
	read := func(ctx context.Context) map[string]string {
		info, err := env.Client.CoreV1().ConfigMaps("kube-public").Get(ctx, bootstraptoken.ClusterInfo, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return nil
		}
		return info.Data
	}
	env.Eventually(func(ctx context.Context) error {
		if data := read(ctx); len(data) != 2 || data["jws-kubeconfig-aaaaaa"] == "" {
			return errors.New("signatures are not as they should be")
		}
		return nil
	})
	// As kubeadm join checks it.
	signed, err := jose.ParseDetached(read(t.Context())["jws-kubeconfig-aaaaaa"], []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signed.Verify([]byte("0123456789abcdef")); err != nil {
		t.Error(err)
	}
	if id := signed.Signatures[0].Header.KeyID; id != "aaaaaa" {
		t.Errorf("signed by %q", id)
	}
	if err := env.Client.CoreV1().Secrets("kube-system").Delete(t.Context(), "bootstrap-token-aaaaaa", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(func(ctx context.Context) error {
		if len(read(ctx)) != 1 {
			return errors.New("the signature of a token that is gone is there")
		}
		return nil
	})
}
