package apiserver_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/store"
	"vigil/store/storetest"
)

// When etcd has no space, a create is answered with 507, a reason and Retry-After; reads, watches and deletes go on.
func TestNoSpace(t *testing.T) {
	etcd := storetest.NewEmbedded(t, store.EmbeddedConfig{QuotaBytes: 8 << 20})
	registry := prometheus.NewRegistry()
	config := store.Config{Embedded: etcd, Registerer: registry}
	server := apiservertest.Start(t, func(c *apiserver.Config) { c.Store, c.Gatherer = storetest.Open(t, config), registry })
	clients, err := kubernetes.NewForConfig(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := clients.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	maps := clients.CoreV1().ConfigMaps("default")
	watch, err := maps.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()

	transport, err := rest.HTTPClientFor(server.Admin()) // without client-go's retries
	if err != nil {
		t.Fatal(err)
	}
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"big-"},"data":{"a":"` + strings.Repeat("x", 500_000) + `"}}`
	created := 0
	var answer *http.Response
	var text []byte
	for answer == nil || answer.StatusCode == http.StatusCreated {
		answer, err = transport.Post(server.URL+"/api/v1/namespaces/default/configmaps", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err = io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if created++; created > 100 {
			t.Fatal("etcd is never full")
		}
	}
	if created--; created == 0 {
		t.Fatalf("nothing was created: %s\n%s", answer.Status, text)
	}
	if answer.StatusCode != http.StatusInsufficientStorage || answer.Header.Get("Retry-After") != "1" ||
		!bytes.Contains(text, []byte(`"reason":"InsufficientStorage"`)) || !bytes.Contains(text, []byte(`"retryAfterSeconds":1`)) ||
		!bytes.Contains(text, []byte("no space is left where the cluster keeps its objects")) {
		t.Errorf("a create without space: %s, %v\n%s", answer.Status, answer.Header, text)
	}

	for path, want := range map[string]string{
		"/readyz?verbose":   "[!]etcd-space etcd has reached its quota: creates and updates are refused, reads and deletes go on; delete objects that are not needed\n",
		"/livez/etcd-space": "etcd has reached its quota: ",
		"/metrics":          "vigil_store_full 1\n",
	} {
		answer, err := transport.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s: %s, %v, does not say %q:\n%s", path, answer.Status, err, want, text)
		}
	}

	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) < created { // the one that was refused may be there
		t.Fatalf("list: %d, %v, want %d or one more", len(list.Items), err, created)
	}
	if err := maps.Delete(ctx, list.Items[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := maps.Get(ctx, list.Items[0].Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get of what was deleted: %v", err)
	}
	for event := range watch.ResultChan() {
		if m, ok := event.Object.(*corev1.ConfigMap); ok && event.Type == "DELETED" && m.Name == list.Items[0].Name {
			break
		}
	}
}
