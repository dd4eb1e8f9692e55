package apiserver_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"

	"vigil/apiserver"
	"vigil/apiserver/resourcemetrics"
	"vigil/kinds"
)

// summaryOf is what a kubelet says of pods with a container each.
func summaryOf(pods ...string) *statsapi.Summary {
	cpu := &statsapi.CPUStats{Time: metav1.NewTime(time.Now()), UsageNanoCores: new(uint64(250e6))}
	memory := &statsapi.MemoryStats{WorkingSetBytes: new(uint64(64 << 20))}
	s := &statsapi.Summary{Node: statsapi.NodeStats{CPU: cpu, Memory: memory}}
	for _, name := range pods {
		s.Pods = append(s.Pods, statsapi.PodStats{
			PodRef: statsapi.PodReference{UID: "uid-" + name}, Containers: []statsapi.ContainerStats{{Name: "c", CPU: cpu, Memory: memory}, {Name: "d", CPU: cpu, Memory: memory}},
		})
	}
	return s
}

// TestNodeMetrics reads metrics.k8s.io with the client that kubectl top and autoscalers use; a kubelet is asked over TLS.
func TestNodeMetrics(t *testing.T) {
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != "/stats/summary?only_cpu_and_memory=true" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(summaryOf("web", "db"))
	}))
	defer kubelet.Close()
	var source *resourcemetrics.Source
	server, c, typed := start(t, func(c *apiserver.Config) {
		c.Connections.AllowLoopback = true // where the kubelet is
		c.Answers = map[schema.GroupVersionKind]apiserver.Answer{
			metricsv1beta1.SchemeGroupVersion.WithKind("NodeMetrics"): func(ctx context.Context, ns, name string) []kinds.Object { return source.Nodes(ctx, ns, name) },
			metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics"):  func(ctx context.Context, ns, name string) []kinds.Object { return source.Pods(ctx, ns, name) },
		}
	})
	source = resourcemetrics.New(resourcemetrics.Config{
		Fetch: server.Connector().Fetch,
		Nodes: func(string) ([]resourcemetrics.Target, error) {
			return []resourcemetrics.Target{{Name: "node-1", Labels: map[string]string{"zone": "a"}}, {Name: "simulated"}, {Name: "unknown"}}, nil
		},
		Pods: func(string, string) ([]resourcemetrics.Target, error) {
			return []resourcemetrics.Target{
				{Namespace: "default", Name: "web", UID: "uid-web", Node: "node-1", Labels: map[string]string{"app": "web"}},
				{Namespace: "other", Name: "db", UID: "uid-db", Node: "node-1"},
				{Namespace: "other", Name: "elsewhere", UID: "uid-elsewhere", Node: "simulated"},
			}, nil
		},
	})
	host, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	for name, runtime := range map[string]string{"node-1": "containerd://2", "simulated": "simulated://1"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(number)}},
			NodeInfo:        corev1.NodeSystemInfo{ContainerRuntimeVersion: runtime},
		}}
		if _, err := typed.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	figures, err := metricsclient.NewForConfig(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := figures.MetricsV1beta1().NodeMetricses().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != "node-1" || nodes.Items[0].Labels["zone"] != "a" || nodes.Items[0].Usage.Cpu().MilliValue() != 250 {
		t.Errorf("nodes: %+v, %v", nodes, err)
	}
	if _, err := figures.MetricsV1beta1().NodeMetricses().Get(t.Context(), "simulated", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a node without a kubelet: %v", err)
	}
	pods := func(namespace string, opts metav1.ListOptions) (names []string) {
		t.Helper()
		list, err := figures.MetricsV1beta1().PodMetricses(namespace).List(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			names = append(names, p.Namespace+"/"+p.Name)
		}
		return names
	}
	for _, test := range []struct {
		namespace string
		opts      metav1.ListOptions
		want      string
	}{
		{"", metav1.ListOptions{}, "default/web other/db"},
		{"other", metav1.ListOptions{}, "other/db"},
		{"", metav1.ListOptions{LabelSelector: "app=web"}, "default/web"},
		{"", metav1.ListOptions{FieldSelector: "metadata.namespace=other"}, "other/db"},
	} {
		if got := pods(test.namespace, test.opts); strings.Join(got, " ") != test.want {
			t.Errorf("pods of %q, %+v: %v", test.namespace, test.opts, got)
		}
	}
	if one, err := figures.MetricsV1beta1().PodMetricses("default").Get(t.Context(), "web", metav1.GetOptions{}); err != nil || len(one.Containers) != 2 || one.Containers[1].Usage.Memory().String() != "64Mi" {
		t.Errorf("a pod: %+v, %v", one, err)
	}
	if _, err := figures.MetricsV1beta1().PodMetricses("default").Get(t.Context(), "db", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a pod of another namespace: %v", err)
	}
	var table metav1.Table
	c.get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1").into(&table)
	if len(table.Rows) != 1 || table.Rows[0].Cells[1] != "500m" || table.Rows[0].Cells[2] != "128Mi" || table.Rows[0].Cells[3] != "10s" {
		t.Errorf("table: %+v", table)
	}
	if r := c.do("DELETE", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/web", ""); r.code != http.StatusMethodNotAllowed {
		t.Errorf("delete: %d %s", r.code, r.body)
	}
}
