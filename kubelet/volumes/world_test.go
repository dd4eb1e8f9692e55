package volumes

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/apiservertest"
	"vigil/internal/nstest"
	"vigil/kubelet"
	"vigil/kubelet/configobjects"
)

// world is a server, and a node n with volumes, both real.
type world struct {
	testing.TB
	server  *apiservertest.Server
	admin   *kubernetes.Clientset
	node    *kubernetes.Clientset
	objects *configobjects.Store
	manager *Manager
	root    string
	told    chan types.UID // pods whose volumes should be looked at
	clock   *clock
}

// patienceOfTests is how long a test waits for what must come. It is no measure of speed.
const patienceOfTests = 5 * time.Minute

// clock is a time that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newWorld(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	nstest.Need(t)
	s := apiservertest.StartForNodes(t)
	identity := s.Client("system:node:n", "system:nodes")
	node, err := kubernetes.NewForConfig(identity)
	must(t, err)
	store, err := configobjects.New(configobjects.Config{Server: identity})
	must(t, err)
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	w := &world{TB: t, server: s, admin: s.Clientset(), node: node, objects: store, root: root, told: make(chan types.UID, 1000), clock: &clock{now: time.Now()}}
	w.restart(change...)
	w.background(store.Run)
	w.background(func(ctx context.Context) error {
		return w.manager.Run(ctx, func(uid types.UID) { w.told <- uid })
	})
	t.Cleanup(func() { must(t, unmountBelow(context.Background(), root)) })
	_, err = w.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = w.admin.CoreV1().ServiceAccounts("a").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = w.node.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"disk": "fast"}}}, metav1.CreateOptions{})
	must(t, err)
	return w
}

// restart makes a manager that knows nothing, as that of a new process.
func (w *world) restart(change ...func(*Config)) {
	w.Helper()
	config := Config{RootDir: w.root, NodeName: "n", Objects: w.objects, Client: w.node, now: w.clock.Now}
	for _, c := range change {
		c(&config)
	}
	manager, err := New(config)
	must(w, err)
	w.manager = manager
}

// background runs something until the test ends.
func (w *world) background(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx)
	}()
	w.Cleanup(func() {
		cancel()
		<-done
	})
}

// named is a volume of a pod, mounted at /NAME.
func named(name string, source corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: source}
}

// pod makes a pod on the node whose container mounts all volumes at /NAME.
func (w *world) pod(name string, change func(*corev1.Pod), volumes ...corev1.Volume) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a", Labels: map[string]string{"app": "x"}},
		Spec: corev1.PodSpec{
			NodeName: "n", AutomountServiceAccountToken: new(false), ServiceAccountName: "default",
			Containers: []corev1.Container{{Name: "c", Image: "i"}}, Volumes: volumes,
		},
	}
	for _, v := range volumes {
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	if change != nil {
		change(pod)
	}
	pod, err := w.admin.CoreV1().Pods("a").Create(w.Context(), pod, metav1.CreateOptions{})
	must(w, err)
	w.server.Settle(w)
	w.objects.Register(pod)
	return pod
}

func (w *world) mount(pod *corev1.Pod) {
	w.Helper()
	if err := w.manager.Mount(w.Context(), pod); err != nil {
		w.Fatalf("mount: %v", err)
	}
}

// fails mounts and wants it to fail with just these messages.
func (w *world) fails(pod *corev1.Pod, messages ...string) *kubelet.VolumeError {
	w.Helper()
	err, ok := w.manager.Mount(w.Context(), pod).(*kubelet.VolumeError)
	if !ok {
		w.Fatalf("mount: %v, want %q", err, messages)
	}
	if got, want := strings.Join(err.Messages, "\n"), strings.Join(messages, "\n"); got != want {
		w.Fatalf("mount failed with\n%s\nwant\n%s", got, want)
	}
	return err
}

// paths are where the pod's container finds its mounts on the node, by path in the container.
func (w *world) paths(pod *corev1.Pod) map[string]string {
	w.Helper()
	mounts, done, err := w.manager.Mounts(w.Context(), pod, &pod.Spec.Containers[0])
	if done != nil {
		defer done()
	}
	must(w, err)
	paths := map[string]string{}
	for _, m := range mounts {
		paths[m.ContainerPath] = m.HostPath
	}
	return paths
}

// await waits until the pod's volumes should be looked at again.
func (w *world) await(pod *corev1.Pod) {
	w.Helper()
	for {
		select {
		case uid := <-w.told:
			if uid == pod.UID {
				return
			}
		case <-time.After(patienceOfTests):
			w.Fatal("nobody was told of a change")
		}
	}
}

func (w *world) configMap(name string, data map[string]string) {
	w.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a"}, Data: data}
	_, err := w.admin.CoreV1().ConfigMaps("a").Update(w.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		_, err = w.admin.CoreV1().ConfigMaps("a").Create(w.Context(), object, metav1.CreateOptions{})
	}
	must(w, err)
}

func (w *world) secret(name string, data map[string][]byte) {
	w.Helper()
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a"}, Data: data}
	_, err := w.admin.CoreV1().Secrets("a").Update(w.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		_, err = w.admin.CoreV1().Secrets("a").Create(w.Context(), object, metav1.CreateOptions{})
	}
	must(w, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
