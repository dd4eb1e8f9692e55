package apiserver_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/store"
	"vigil/store/encryption"
	"vigil/store/storetest"
)

// encrypted opens the store of target with a key for each name; the first encrypts.
func encrypted(t *testing.T, target storetest.Target, names ...string) *store.Store {
	t.Helper()
	var keys []string
	for _, name := range names {
		secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(name[:1]), 32))
		keys = append(keys, fmt.Sprintf("{name: %s, secret: %s}", name, secret))
	}
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n" +
		"- resources: [secrets]\n  providers: [{aesgcm: {keys: [" + strings.Join(keys, ", ") + "]}}, {identity: {}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sealer, err := encryption.Load(encryption.Config{
		File: path, Prefix: "/registry/", Resources: map[string]schema.GroupResource{"secrets": {Resource: "secrets"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sealer.Close)
	config := target.Config
	config.Sealer = sealer
	return storetest.Open(t, config)
}

// Secrets are unreadable in etcd and readable through the API, before, during and after the rotation of a key.
func TestEncryption(t *testing.T) {
	target := storetest.NewTarget(t)
	inEtcd := func(name, prefix string) {
		t.Helper()
		resp, err := target.Etcd.Client().Get(t.Context(), "/registry/secrets/default/"+name)
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatalf("read etcd: %v", err)
		}
		if value := resp.Kvs[0].Value; !bytes.HasPrefix(value, []byte(prefix)) || bytes.Contains(value, []byte("hunter2")) {
			t.Errorf("etcd holds %.60q of %s, want the prefix %s and no secret", value, name, prefix)
		}
	}
	start := func(keys ...string) *apiservertest.Server {
		return apiservertest.Start(t, func(c *apiserver.Config) { c.Store = encrypted(t, target, keys...) })
	}
	visible := func(s *apiservertest.Server, names ...string) {
		t.Helper()
		secrets := s.Clientset().CoreV1().Secrets("default")
		list, err := secrets.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != len(names) {
			t.Fatalf("list: %d secrets, %v", len(list.Items), err)
		}
		for i, name := range names {
			one, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || string(one.Data["password"]) != "hunter2" || string(list.Items[i].Data["password"]) != "hunter2" {
				t.Errorf("secret %s reads %q, in a list %q, %v", name, one.Data, list.Items[i].Data, err)
			}
		}
	}
	create := func(s *apiservertest.Server, name string) {
		t.Helper()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"password": []byte("hunter2")}}
		if _, err := s.Clientset().CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	first := start("one")
	if err := createNamespace(t, first); err != nil {
		t.Fatal(err)
	}
	watch, err := first.Clientset().CoreV1().Secrets("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	create(first, "a")
	if e := <-watch.ResultChan(); string(e.Object.(*corev1.Secret).Data["password"]) != "hunter2" {
		t.Errorf("a watch sees %v", e.Object)
	}
	watch.Stop()
	inEtcd("a", "k8s:enc:aesgcm:v1:one:")
	visible(first, "a")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}

	second := start("two", "one")
	create(second, "b")
	visible(second, "a", "b")
	inEtcd("a", "k8s:enc:aesgcm:v1:one:")
	inEtcd("b", "k8s:enc:aesgcm:v1:two:")
	secrets := second.Clientset().CoreV1().Secrets("default")
	before, err := secrets.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, rewritten := range []bool{true, false} {
		old := before.Items[i]
		now, err := secrets.Patch(t.Context(), old.Name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		if err != nil || (now.ResourceVersion != old.ResourceVersion) != rewritten {
			t.Errorf("a patch of %s that changes nothing: from revision %s to %s, want a write: %t; %v", old.Name, old.ResourceVersion, now.ResourceVersion, rewritten, err)
		}
	}
	inEtcd("a", "k8s:enc:aesgcm:v1:two:")
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}

	visible(start("two"), "a", "b")
}

func createNamespace(t *testing.T, s *apiservertest.Server) error {
	t.Helper()
	_, err := s.Clientset().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	return err
}
