package informer

import (
	"context"
	"errors"
	"fmt"
	"github.com/prometheus/client_golang/prometheus"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/informer/internal/wire"
	"vigil/internal/eventually"
	"vigil/object"
)

// These tests run against the real API server with a real etcd.

// connect makes a factory for a server.
func connect(t *testing.T, cfg *rest.Config) *Factory {
	t.Helper()
	f, err := NewFactory(cfg, Config{Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	f.timing = fast()
	return f
}

const testNamespace = "informer"

// makeNamespace makes the namespace that the tests write to.
func makeNamespace(t *testing.T, cs *kubernetes.Clientset) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testNamespace}}
	if _, err := cs.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func configMap(name string, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name, Labels: map[string]string{"parity": fmt.Sprint(n % 2)}},
		Data:       map[string]string{"n": fmt.Sprint(n)},
	}
}

// compareWithServer waits until an informer holds what the server lists.
func compareWithServer(t *testing.T, i *Informer, cs *kubernetes.Clientset, opts metav1.ListOptions) {
	t.Helper()
	l, err := cs.CoreV1().ConfigMaps("").List(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, c := range l.Items {
		want[keyOf(c.Namespace, c.Name)] = c.ResourceVersion
	}
	eventually.Nil(t, fmt.Sprintf("the informer of %s is as the server", i.Resource()), func() error {
		if diff := cmp.Diff(want, versions(i)); diff != "" {
			return errors.New("-server +informer:\n" + diff)
		}
		return nil
	})
}

func TestAPIServer_FormsAndSelections(t *testing.T) {
	s := apiservertest.Start(t)
	cs := s.Clientset()
	makeNamespace(t, cs)
	f := connect(t, s.Admin())

	whole := ResourceOf[*corev1.ConfigMap]()
	asJSON, odd, metadata, small := whole, whole, MetadataOf(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}), whole
	asJSON.Type, asJSON.Plural = &object.Type{}, "configmaps"
	asJSON.Namespace = testNamespace // tells it from whole
	odd.LabelSelector = "parity=1"
	small.DropManagedFields = true
	informers := map[string]*Informer{}
	histories := map[string]*history{}
	for name, res := range map[string]Resource{"protobuf": whole, "JSON": asJSON, "selected": odd, "metadata": metadata, "small": small} {
		informers[name] = f.Informer(res)
		histories[name] = newHistory()
		informers[name].AddHandler(histories[name].handler(t))
	}
	start(t, f)

	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		name := fmt.Sprint("c-", rng.IntN(20))
		c := configMap(name, n)
		if _, err := cs.CoreV1().ConfigMaps(testNamespace).Update(t.Context(), c, metav1.UpdateOptions{}); err == nil && rng.IntN(3) > 0 {
			continue
		} else if err == nil {
			err = cs.CoreV1().ConfigMaps(testNamespace).Delete(t.Context(), name, metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
		} else if _, err := cs.CoreV1().ConfigMaps(testNamespace).Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, i := range informers {
		opts := metav1.ListOptions{LabelSelector: i.Resource().LabelSelector}
		if i.Resource().Namespace != "" {
			opts.FieldSelector = "metadata.namespace=" + i.Resource().Namespace
		}
		compareWithServer(t, i, cs, opts)
		histories[name].check(t, versions(i))
	}

	var last *corev1.ConfigMap
	all, err := ListerFor[*corev1.ConfigMap](informers["protobuf"]).List(testNamespace, nil)
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	for _, c := range all {
		if last == nil || c.ResourceVersion > last.ResourceVersion {
			last = c
		}
	}
	got, err := cs.CoreV1().ConfigMaps(testNamespace).Get(t.Context(), last.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got.APIVersion, got.Kind = "v1", "ConfigMap"
	if diff := cmp.Diff(got, last); diff != "" {
		t.Errorf("lister and server (-server +lister):\n%s", diff)
	}
	if p, err := ListerFor[*metav1.PartialObjectMetadata](informers["metadata"]).Get(testNamespace, last.Name); err != nil || p.UID != got.UID || p.Labels["parity"] != got.Labels["parity"] {
		t.Errorf("metadata: %+v, %v", p, err)
	}
	if o, ok := informers["metadata"].Indexer().Get(testNamespace, last.Name); !ok || o.encoding != wire.Proto {
		t.Error("metadata does not come as protobuf")
	}
	if o, ok := informers["JSON"].Indexer().Get(testNamespace, last.Name); !ok || o.encoding != wire.JSON || string(o.UID()) != string(got.UID) {
		t.Error("JSON object is missing or no JSON")
	}
	if c, err := ListerFor[*corev1.ConfigMap](informers["small"]).Get(testNamespace, last.Name); err != nil || len(c.ManagedFields) != 0 || c.Data["n"] != last.Data["n"] {
		t.Errorf("object without managedFields: %+v, %v", c, err)
	}
}

// A server is stopped and another one starts on the same etcd, with writes before, between and after.
func TestAPIServer_ResumesAfterRestart(t *testing.T) {
	var files apiserver.Config
	first := apiservertest.Start(t, func(c *apiserver.Config) { files = *c })
	var address atomic.Pointer[string]
	address.Store(ptr(first.URL[len("https://"):]))
	cfg := first.Admin()
	cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, *address.Load())
	}
	var lists atomic.Int64
	cfg.WrapTransport = func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); q.Get("watch") == "" || q.Get("sendInitialEvents") != "" {
				lists.Add(1)
			}
			return rt.RoundTrip(r)
		})
	}
	f := connect(t, cfg)
	i := f.Informer(ResourceOf[*corev1.ConfigMap]())
	h := newHistory()
	i.AddHandler(h.handler(t))
	start(t, f)
	write := func(cs *kubernetes.Clientset, from int) {
		for n := range 20 {
			if _, err := cs.CoreV1().ConfigMaps(testNamespace).Create(t.Context(), configMap(fmt.Sprint("c-", from+n), n), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	cs := first.Clientset()
	makeNamespace(t, cs)
	write(cs, 0)
	compareWithServer(t, i, cs, metav1.ListOptions{})

	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	second := apiservertest.Start(t, func(c *apiserver.Config) {
		c.Store, c.TLSCertFile, c.TLSKeyFile, c.ClientCAFile = first.Store, files.TLSCertFile, files.TLSKeyFile, files.ClientCAFile
	})
	admin := first.Admin()
	admin.Host = second.URL
	cs, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	write(cs, 100) // the informer still finds nobody
	address.Store(ptr(second.URL[len("https://"):]))
	write(cs, 200)
	if err := cs.CoreV1().ConfigMaps(testNamespace).Delete(t.Context(), "c-3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	compareWithServer(t, i, cs, metav1.ListOptions{})
	h.check(t, versions(i))
	t.Log(lists.Load(), "lists")
	if n := lists.Load(); n > 2 {
		t.Errorf("%d lists, want at most one for each server", n)
	}
}

func ptr(s string) *string { return &s }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A client whose certificate the server does not take keeps trying and says why.
func TestAPIServer_Refused(t *testing.T) {
	s := apiservertest.Start(t)
	f := connect(t, s.Anonymous())
	i := f.Informer(ResourceOf[*corev1.ConfigMap]())
	run(t, f)
	eventually.True(t, "three attempts", func() bool { return value(t, i.metrics.watches) >= 3 })
	if i.HasSynced() {
		t.Error("synced without being let in")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := i.WaitForSync(ctx); err == nil {
		t.Error("WaitForSync without being let in")
	}
}

// Objects of a kind nobody wrote Go types for come as unstructured.
func TestAPIServer_Unstructured(t *testing.T) {
	s := apiservertest.Start(t)
	makeNamespace(t, s.Clientset())
	f := connect(t, s.Admin())
	i := f.Informer(Resource{Version: "v1", Plural: "namespaces"})
	start(t, f)
	var names []string
	for _, o := range i.Indexer().List("") {
		obj, err := o.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if k := obj.GetObjectKind().GroupVersionKind(); k.Kind != "Namespace" {
			t.Errorf("%s is a %s", o.Key(), k)
		}
		names = append(names, o.Name())
	}
	if !slices.Contains(names, testNamespace) {
		t.Errorf("namespaces %v, want the test's among them", names)
	}
}
