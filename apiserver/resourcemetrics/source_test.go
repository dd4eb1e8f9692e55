package resourcemetrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"vigil/kinds"
)

// nodes are kubelets under a synthetic clock: "a" has the pods p1 and p2, "b" has p3, "c" does not answer.
type nodes struct {
	now time.Time

	mu    sync.Mutex
	asked []string
	down  map[string]bool
}

func (n *nodes) source() *Source {
	return New(Config{
		Fetch: n.fetch,
		Nodes: func(name string) (found []Target, err error) {
			for _, node := range []string{"a", "b", "c"} {
				if name == "" || name == node {
					found = append(found, Target{Name: node, Labels: map[string]string{"zone": node}})
				}
			}
			return found, nil
		},
		Pods: func(namespace, name string) (found []Target, err error) {
			for _, p := range []Target{{Name: "p1", Node: "a"}, {Name: "p2", Node: "a"}, {Name: "p3", Node: "b"}, {Name: "pending"}, {Name: "new", Node: "b"}} {
				p.Namespace, p.UID = "default", "uid-"+p.Name
				if (name == "" || name == p.Name) && (namespace == "" || namespace == "default") {
					found = append(found, p)
				}
			}
			return found, nil
		},
		now: func() time.Time { return n.now },
	})
}

func (n *nodes) fetch(_ context.Context, node, path, query string) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, node)
	slices.Sort(n.asked)
	if path != "/stats/summary" || query != "only_cpu_and_memory=true" {
		return nil, fmt.Errorf("asked for %s?%s", path, query)
	}
	if node == "c" || n.down[node] {
		return nil, errors.New("connection refused")
	}
	cpu := &statsapi.CPUStats{Time: metav1.NewTime(n.now), UsageNanoCores: new(uint64(123456789))}
	memory := &statsapi.MemoryStats{WorkingSetBytes: new(uint64(64 << 20))}
	container := statsapi.ContainerStats{Name: "c", CPU: cpu, Memory: memory}
	pod := func(name string) statsapi.PodStats {
		return statsapi.PodStats{PodRef: statsapi.PodReference{Name: name, Namespace: "default", UID: "uid-" + name}, Containers: []statsapi.ContainerStats{container}}
	}
	summary := statsapi.Summary{Node: statsapi.NodeStats{CPU: cpu, Memory: memory}}
	if node == "a" {
		summary.Pods = []statsapi.PodStats{pod("p1"), pod("p2")}
	} else {
		fresh := pod("new")
		fresh.Containers[0].CPU = &statsapi.CPUStats{Time: cpu.Time} // seen once only
		summary.Pods = []statsapi.PodStats{pod("p3"), fresh}
	}
	return json.Marshal(summary)
}

func names(objects []kinds.Object) string {
	var all []string
	for _, o := range objects {
		all = append(all, o.GetName())
	}
	return strings.Join(all, " ")
}

func TestSource(t *testing.T) {
	n := &nodes{now: time.Unix(10000, 0), down: map[string]bool{}}
	s := n.source()
	ask := func(what, want, asked string) {
		t.Helper()
		got := ""
		n.asked = nil
		kind, name, _ := strings.Cut(what, "/")
		if kind == "nodes" {
			got = names(s.Nodes(t.Context(), "", name))
		} else {
			got = names(s.Pods(t.Context(), "default", name))
		}
		if got != want || strings.Join(n.asked, " ") != asked {
			t.Errorf("%s: got %q, asked %v; want %q, %q", what, got, n.asked, want, asked)
		}
	}
	ask("pods/p1", "p1", "a")
	ask("pods/pending", "", "")
	ask("nodes/", "a b", "b c")
	ask("pods/", "p1 p2 p3", "")
	n.now = n.now.Add(resolution)
	ask("nodes/", "a b", "")
	n.now = n.now.Add(time.Second)
	ask("nodes/", "a b", "a b c")
	n.down["a"] = true
	n.now = n.now.Add(resolution + time.Second)
	ask("nodes/a", "a", "a")
	ask("nodes/a", "a", "")
	n.now = n.now.Add(staleness)
	ask("nodes/", "b", "a b c")
	n.now = n.now.Add(time.Hour)
	ask("pods/p3", "p3", "b")
	if len(s.nodes) != 1 {
		t.Errorf("%d nodes are remembered", len(s.nodes))
	}

	node := s.Nodes(t.Context(), "", "b")[0].(*metricsv1beta1.NodeMetrics)
	if node.Labels["zone"] != "b" || node.Usage.Cpu().String() != "123456789n" || node.Usage.Memory().String() != "64Mi" || node.Window.Duration != 10*time.Second || !node.Timestamp.Time.Equal(n.now) {
		t.Errorf("node: %+v", node)
	}
	pod := s.Pods(t.Context(), "default", "p3")[0].(*metricsv1beta1.PodMetrics)
	if pod.Namespace != "default" || len(pod.Containers) != 1 || pod.Containers[0].Name != "c" || pod.Containers[0].Usage.Cpu().MilliValue() != 124 {
		t.Errorf("pod: %+v", pod)
	}
}

func TestSource_AsksOnce(t *testing.T) {
	n := &nodes{now: time.Unix(10000, 0)}
	s := n.source()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if got := names(s.Nodes(t.Context(), "", "")); got != "a b" {
				t.Errorf("got %q", got)
			}
		})
	}
	group.Wait()
	if got := strings.Join(n.asked, " "); got != "a b c" {
		t.Errorf("asked %s", got)
	}
}
