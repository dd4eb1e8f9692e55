package configobjects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/apiservertest"
	"vigil/internal/eventually"
	"vigil/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m, "vigil/kubelet") }

// world is a server with a node's store, and an administrator.
type world struct {
	*testing.T
	server  *apiservertest.Server
	admin   *kubernetes.Clientset
	store   *Store
	network *network
	told    chan types.UID
}

func newWorld(t *testing.T, change func(*timing)) *world {
	t.Helper()
	s := apiservertest.StartForNodes(t)
	timing := defaultTiming()
	if change != nil {
		change(&timing)
	}
	net := &network{}
	config := s.Client("system:node:n", "system:nodes")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		net.RoundTripper = next
		return net
	})
	store, err := New(Config{Server: config, timing: timing})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, server: s, admin: s.Clientset(), store: store, network: net, told: make(chan types.UID, 1000)}
	store.OnChange(func(pods []types.UID) {
		for _, uid := range pods {
			w.told <- uid
		}
	})
	_, err = w.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = store.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// pod makes a pod on the node that names a config map and a secret, and registers it.
func (w *world) pod(name, configMap, secret string) *corev1.Pod {
	w.Helper()
	pod, err := w.admin.CoreV1().Pods("a").Create(w.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: "n", AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}},
			}}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}},
			}}},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	w.server.Settle(w) // a node hears of its pods from the caches
	w.store.Register(pod)
	return pod
}

func (w *world) configMap(name, value string, immutable bool) {
	w.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}
	if immutable {
		object.Immutable = new(true)
	}
	_, err := w.admin.CoreV1().ConfigMaps("a").Create(w.Context(), object, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) update(name, value string) {
	w.Helper()
	_, err := w.admin.CoreV1().ConfigMaps("a").Update(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}, metav1.UpdateOptions{})
	w.must(err)
}

// await waits until the pod is told of.
func (w *world) await(pod *corev1.Pod) {
	w.Helper()
	select {
	case uid := <-w.told:
		if uid != pod.UID {
			w.Fatalf("told of pod %s, want %s", uid, pod.UID)
		}
	case <-time.After(eventually.Limit):
		w.Fatal("nobody was told of a change")
	}
}

func (w *world) value(name string) string {
	w.Helper()
	object, err := w.store.ConfigMap(w.Context(), "a", name)
	w.must(err)
	return object.Data["k"]
}

func TestStore_Follows(t *testing.T) {
	w := newWorld(t, nil)
	w.configMap("m", "one", false)
	pod := w.pod("p", "m", "s")
	if got := w.value("m"); got != "one" {
		t.Fatalf("first read is %q", got)
	}
	object, err := w.store.ConfigMap(t.Context(), "a", "m")
	w.must(err)
	if object.ManagedFields != nil {
		t.Error("managed fields are kept")
	}
	w.update("m", "two")
	w.await(pod)
	if got := w.value("m"); got != "two" {
		t.Errorf("after an update %q", got)
	}
	w.must(w.admin.CoreV1().ConfigMaps("a").Delete(t.Context(), "m", metav1.DeleteOptions{}))
	w.await(pod)
	if _, err := w.store.ConfigMap(t.Context(), "a", "m"); !apierrors.IsNotFound(err) || err.Error() != `configmap "m" not found` {
		t.Errorf("after a deletion: %v", err)
	}
	w.configMap("m", "three", false)
	w.await(pod)
	if got := w.value("m"); got != "three" {
		t.Errorf("after it came back %q", got)
	}
}

func TestStore_Errors(t *testing.T) {
	w := newWorld(t, nil)
	pod := w.pod("p", "m", "s")
	if _, err := w.store.Secret(t.Context(), "a", "s"); !apierrors.IsNotFound(err) || err.Error() != `secret "s" not found` {
		t.Errorf("missing secret: %v", err)
	}
	if _, err := w.store.Secret(t.Context(), "a", "other"); err == nil || err.Error() != `object "a"/"other" not registered` {
		t.Errorf("secret that no pod names: %v", err)
	}
	_, err := w.admin.CoreV1().Secrets("a").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte("v")}}, metav1.CreateOptions{})
	w.must(err)
	w.await(pod)
	secret, err := w.store.Secret(t.Context(), "a", "s")
	w.must(err)
	if string(secret.Data["k"]) != "v" {
		t.Errorf("secret is %v", secret.Data)
	}
}

// TestStore_Forbidden registers a pod that the API server does not have on this node.
func TestStore_Forbidden(t *testing.T) {
	w := newWorld(t, nil)
	w.configMap("m", "one", false)
	stranger := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger", Namespace: "a", UID: "stranger"},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}},
		}}}},
	}
	w.store.Register(stranger)
	if _, err := w.store.ConfigMap(t.Context(), "a", "m"); !apierrors.IsForbidden(err) {
		t.Fatalf("config map of nobody's pod: %v", err)
	}
	w.pod("p", "m", "s") // now one of the node's pods names it
	for {
		<-w.told
		if _, err := w.store.ConfigMap(t.Context(), "a", "m"); err == nil {
			break
		}
	}
}

func TestStore_Immutable(t *testing.T) {
	w := newWorld(t, nil)
	w.configMap("m", "one", true)
	w.pod("p", "m", "s")
	if got := w.value("m"); got != "one" {
		t.Fatalf("read %q", got)
	}
	w.store.mu.Lock()
	watcher := w.store.watchers[key{configMaps, "a", "m"}]
	w.store.mu.Unlock()
	<-watcher.done
	if got := w.value("m"); got != "one" {
		t.Errorf("after its watch has ended: %q", got)
	}
}

func TestStore_LetsGo(t *testing.T) {
	w := newWorld(t, func(t *timing) { t.linger = 50 * time.Millisecond })
	w.configMap("m", "one", false)
	p, q := w.pod("p", "m", "s"), w.pod("q", "m", "s")
	w.value("m")
	w.store.mu.Lock()
	watcher := w.store.watchers[key{configMaps, "a", "m"}]
	w.store.mu.Unlock()
	w.store.Unregister(p.UID)
	w.value("m")
	w.store.Unregister(q.UID)
	<-watcher.done
	if _, err := w.store.ConfigMap(t.Context(), "a", "m"); err == nil {
		t.Error("the config map is still known")
	}
	w.store.Unregister(q.UID) // again is no matter
}

// TestStore_Resumes breaks connections: nothing may be missed, and nothing told without a change.
func TestStore_Resumes(t *testing.T) {
	w := newWorld(t, nil)
	w.configMap("m", "0", false)
	pod := w.pod("p", "m", "s")
	w.value("m")
	if _, err := w.store.Secret(t.Context(), "a", "s"); !apierrors.IsNotFound(err) { // it is known, too: else the first cut makes it news
		t.Fatal(err)
	}
	for i := 1; i <= 10; i++ {
		w.network.cut()
		w.update("m", fmt.Sprint(i))
		w.await(pod)
		if got := w.value("m"); got != fmt.Sprint(i) {
			t.Fatalf("read %q after change %d", got, i)
		}
	}
	if len(w.told) > 0 {
		t.Errorf("%d changes were told that were none", len(w.told))
	}
}

// TestStore_Unreachable cannot reach the server at first.
func TestStore_Unreachable(t *testing.T) {
	w := newWorld(t, nil)
	w.configMap("m", "one", false)
	w.network.down.Store(true)
	pod := w.pod("p", "m", "s")
	if _, err := w.store.ConfigMap(t.Context(), "a", "m"); err == nil || !strings.Contains(err.Error(), "failed to sync configmap cache: ") {
		t.Errorf("read without a server: %v", err)
	}
	w.network.down.Store(false)
	for {
		w.await(pod) // its secret is told of, too
		if object, err := w.store.ConfigMap(t.Context(), "a", "m"); err == nil && object.Data["k"] == "one" {
			break
		}
	}
	w.network.down.Store(true)
	w.network.cut()
	if got := w.value("m"); got != "one" {
		t.Errorf("read %q after the server was lost", got)
	}
}

// network lets a test break the connections of a client.
type network struct {
	http.RoundTripper
	down atomic.Bool
	mu   sync.Mutex
	open []io.Closer
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	if n.down.Load() {
		return nil, errors.New("the network is down")
	}
	response, err := n.RoundTripper.RoundTrip(r)
	if err == nil {
		n.mu.Lock()
		n.open = append(n.open, response.Body)
		n.mu.Unlock()
	}
	return response, err
}

// cut ends all responses.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, body := range n.open {
		body.Close()
	}
	n.open = nil
}

// TestStore_RegisterAgain adds what an ephemeral container names, and takes away what no longer is named.
func TestStore_RegisterAgain(t *testing.T) {
	w := newWorld(t, nil)
	w.configMap("m", "one", false)
	pod := w.pod("p", "m", "s")
	w.value("m")
	pod = pod.DeepCopy()
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Env: []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}, Key: "k"}}}},
	}}}
	w.store.Register(pod)
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.store.watchers[key{secrets, "a", "late"}] == nil || len(w.store.watchers[key{configMaps, "a", "m"}].pods) != 1 {
		t.Error("the pod's objects are not watched")
	}
}
