package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/record"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/health"
	"vigil/controllers/replicaset"
	"vigil/informer"
	"vigil/informer/workqueue"
	"vigil/internal/eventually"
	"vigil/internal/panics"
	"vigil/kinds"
	"vigil/kubelet"
	"vigil/kubelet/simulated"
	"vigil/scheduler"
)

// plants panic once each, when they are stepped on.
type plants struct {
	mu  sync.Mutex
	hit map[string]bool
}

// step panics the first time that it is called with a name.
func (p *plants) step(name string) {
	p.mu.Lock()
	first := !p.hit[name]
	if p.hit == nil {
		p.hit = map[string]bool{}
	}
	p.hit[name] = true
	p.mu.Unlock()
	if first {
		panic("planted at " + name)
	}
}

// Admit implements kubelet.Admitter.
func (p *plants) Admit(*corev1.Pod, []*corev1.Pod) *kubelet.Refusal {
	p.step("pod-admission")
	return nil
}

// config is a client configuration whose requests of a method, to paths with an ending, panic once in the caller's goroutine.
func (p *plants) config(config *rest.Config, name, method, ending string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == method && strings.HasSuffix(r.URL.Path, ending) {
				p.step(name)
			}
			return next.RoundTrip(r)
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// mined is a runtime with plants.
type mined struct {
	*simulated.Runtime
	plants *plants
}

func (m mined) Pod(ctx context.Context, uid types.UID) (*kubelet.Sandbox, []*kubelet.Container, error) {
	m.plants.step("pod-worker")
	return m.Runtime.Pod(ctx, uid)
}

func (m mined) Follow(ctx context.Context, changed func(types.UID)) error {
	m.plants.step("node")
	return m.Runtime.Follow(ctx, changed)
}

// TestPanics plants a panic in each kind of work between a ReplicaSet and its running pod. Each is got over; each is seen in the metric, in
// /readyz?verbose and in what `vigil status` reads.
func TestPanics(t *testing.T) {
	before := map[panics.Place]int64{}
	places := []panics.Place{
		panics.Request, panics.HealthCheck, panics.StartHook, panics.Handler, panics.Reconcile, panics.Scheduling, panics.Binding,
		panics.PodAdmission, panics.PodWorker, panics.PodStatus, panics.Node,
	}
	for _, place := range places {
		before[place] = panics.Count(place)
	}
	p := &plants{}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	checked := health.Shared(log, time.Nanosecond, time.Minute, func(context.Context) error {
		p.step("health-check")
		return nil
	})
	s := apiservertest.Start(t, func(c *apiserver.Config) {
		c.Logger = log
		c.StartHooks = append(c.StartHooks, apiserver.StartHook{Name: "mined", Run: func(context.Context, *apiserver.Server) error {
			p.step("start-hook")
			return nil
		}})
		c.Checks = append(c.Checks, health.Check{Name: "mined", Func: checked})
		c.Answers = map[schema.GroupVersionKind]apiserver.Answer{
			corev1.SchemeGroupVersion.WithKind("ComponentStatus"): func(context.Context, string, string) []kinds.Object {
				p.step("request")
				return nil
			},
		}
	})
	client := s.Clientset()
	if _, err := client.CoreV1().ComponentStatuses().List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "apiserver panic'd on GET /api/v1/componentstatuses") {
		t.Errorf("a request that panics: %v", err)
	}
	if _, err := client.CoreV1().ComponentStatuses().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the next: %v", err)
	}
	if body, err := client.RESTClient().Get().AbsPath("/livez/mined").DoRaw(t.Context()); err == nil || !strings.Contains(string(body), "planted") {
		t.Errorf("a check that panics: %v %s", err, body)
	}

	runMined(t, s, p, log)
	waitRunning(t, client)

	out := gather(t)
	for _, place := range places {
		if n := panics.Count(place) - before[place]; n != 1 {
			t.Errorf("%d panics were counted at %s, want 1", n, place)
		}
		if want := fmt.Sprintf("vigil_panics_total{place=%q} %d\n", place, panics.Count(place)); !strings.Contains(out, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	body, err := client.RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(body), "\nreadyz check passed\n") {
		t.Errorf("readiness: %v %s", err, body)
	}
	status, err := ReadStatus(t.Context(), writeAdmin(t, s.Admin()))
	if err != nil {
		t.Fatal(err)
	}
	if !status.Ready || len(status.Failing) > 0 || len(status.Warnings) != 1 {
		t.Fatalf("status: %+v", status)
	}
	for _, place := range places {
		want := fmt.Sprintf("%s %d", place, panics.Count(place))
		for _, text := range []string{string(body), status.Warnings[0]} {
			if !strings.Contains(text, want) || !strings.Contains(text, "panics ") {
				t.Errorf("%q is missing in %q", want, text)
			}
		}
	}
	t.Log(status.Warnings[0])
}

// runMined runs a ReplicaSet controller, a scheduler and a node until the test ends, all with plants, and makes a ReplicaSet.
func runMined(t *testing.T, s *apiservertest.Server, p *plants, log *slog.Logger) {
	t.Helper()
	factory, err := informer.NewFactory(s.Admin(), informer.Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	as := func(config *rest.Config) kubernetes.Interface {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	metrics, err := workqueue.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	sets := replicaset.New(replicaset.Config{
		Client: as(p.config(s.Admin(), "reconcile", "POST", "/pods")), Informers: factory, Recorder: &record.FakeRecorder{}, Logger: log, Metrics: metrics,
	})
	nodes := scheduler.New(scheduler.Config{
		Client:    as(p.config(p.config(s.Admin(), "binding", "POST", "/binding"), "scheduling", "PATCH", "/status")),
		Informers: factory, Logger: log,
	})
	node, err := kubelet.New(kubelet.Config{
		Server: p.config(s.Client("system:node:n", "system:nodes", "system:masters"), "pod-status", "PATCH", "/status"), NodeName: "n", Version: "v1.37.2",
		Runtime:   mined{simulated.New(netip.MustParsePrefix("10.244.1.0/24")), p},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}, Logger: log, StatusUpdateFrequency: 100 * time.Millisecond,
		Parts: kubelet.Parts{Admitters: []kubelet.Admitter{p}},
	})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 100)
	factory.Informer(informer.ResourceOf[*corev1.Node]()).AddHandler(informer.EventHandler{
		OnAdd:    func(*informer.Object, bool) { p.step("informer-handler"); told <- "add" },
		OnUpdate: func(_, o *informer.Object) { told <- "update" },
	})

	ctx, cancel := context.WithCancel(context.Background())
	parts := []func(context.Context) error{factory.Run, sets.Run, nodes.Run}
	done := make(chan error, len(parts)+1)
	run := func(f func(context.Context) error) { go func() { done <- f(ctx) }() }
	for _, f := range parts {
		run(f)
	}
	t.Cleanup(func() {
		cancel()
		for range len(parts) + 1 {
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("a component ended: %v", err)
			}
		}
	})
	client := s.Clientset()
	for _, name := range []string{corev1.NamespaceNodeLease, "default"} {
		_, _ = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	}
	labels := map[string]string{"app": "mined"}
	_, err = client.AppsV1().ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "mined"},
		Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")},
			}}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the pod fits nowhere, and telling so panics", func() bool { return panics.Count(panics.Scheduling) > 0 }) // there is no node yet
	run(node.Run)
	select {
	case what := <-told:
		if what != "update" {
			t.Errorf("the handler that panicked was told %q first, want the object again", what)
		}
	case <-time.After(eventually.Limit):
		t.Error("the handler that panicked was not told again")
	}
}

func waitRunning(t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	eventually.True(t, "the pod runs", func() bool {
		pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		return err == nil && len(pods.Items) == 1 && pods.Items[0].Status.Phase == corev1.PodRunning
	})
	eventually.True(t, "the node follows its runtime again", func() bool { return panics.Count(panics.Node) > 0 })
}

// gather is what /metrics of a component shows.
func gather(t *testing.T) string {
	t.Helper()
	out := &strings.Builder{}
	families, err := newRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "vigil_panics_total" {
				fmt.Fprintf(out, "%s{place=%q} %v\n", f.GetName(), m.GetLabel()[0].GetValue(), m.GetCounter().GetValue())
			}
		}
	}
	return out.String()
}

// writeAdmin writes the kubeconfig of a data directory.
func writeAdmin(t *testing.T, admin *rest.Config) (dir string) {
	t.Helper()
	dir = t.TempDir()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData}
	config.Contexts["x"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "x"
	if err := clientcmd.WriteToFile(*config, filepath.Join(dir, "admin.conf")); err != nil {
		t.Fatal(err)
	}
	return dir
}
