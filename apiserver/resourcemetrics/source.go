package resourcemetrics

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"vigil/kinds"
)

const (
	resolution = 15 * time.Second // how old an answer may be
	staleness  = time.Minute      // after which a node that does not answer has no figures
	patience   = 5 * time.Second  // how long a node may take
	parallel   = 64               // nodes asked at once
	window     = 10 * time.Second // over which kubelets measure CPU
	summary    = "/stats/summary" // what they are asked for
	query      = "only_cpu_and_memory=true"
)

// Target is a node or a pod as the API has it.
type Target struct {
	Namespace, Name string
	UID             string
	Labels          map[string]string
	Node            string // of a pod; "": it has none
}

// Config says whom to ask. All but Logger is needed.
type Config struct {
	// Fetch asks the kubelet of a node.
	Fetch  func(ctx context.Context, node, path, query string) ([]byte, error)
	Nodes  func(name string) ([]Target, error)            // "": all
	Pods   func(namespace, name string) ([]Target, error) // "": all
	Logger *slog.Logger

	now func() time.Time // nil: time.Now
}

// Source has figures of nodes and pods. It is safe for use by many goroutines.
type Source struct {
	config Config

	mu    sync.Mutex
	nodes map[string]*node
}

// node is what a kubelet has said last.
type node struct {
	asking sync.Mutex // held while the kubelet is asked, so that others wait for the same answer

	mu       sync.Mutex
	asked    time.Time // also when there was no answer
	answered time.Time
	stats    statsapi.NodeStats
	pods     map[string]*statsapi.PodStats // by UID
}

// New makes a source.
func New(config Config) *Source {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.now == nil {
		config.now = time.Now
	}
	return &Source{config: config, nodes: map[string]*node{}}
}

// Nodes is the apiserver.Answer of NodeMetrics.
func (s *Source) Nodes(ctx context.Context, _, name string) []kinds.Object {
	wanted, err := s.config.Nodes(name)
	if err != nil {
		s.config.Logger.Warn("the API server cannot list the nodes whose metrics were asked for; the answer is empty", "error", err)
		return nil
	}
	names := make([]string, len(wanted))
	for i, n := range wanted {
		names[i] = n.Name
	}
	answers := s.ask(ctx, names)
	found := make([]kinds.Object, 0, len(wanted))
	for _, n := range wanted {
		if answer := answers[n.Name]; answer != nil {
			if usage, at := usageOf(answer.stats.CPU, answer.stats.Memory); usage != nil {
				found = append(found, &metricsv1beta1.NodeMetrics{ObjectMeta: n.meta(at), Timestamp: at, Window: metav1.Duration{Duration: window}, Usage: usage})
			}
		}
	}
	return found
}

// Pods is the apiserver.Answer of PodMetrics. A pod has figures when all its containers that run have.
func (s *Source) Pods(ctx context.Context, namespace, name string) []kinds.Object {
	wanted, err := s.config.Pods(namespace, name)
	if err != nil {
		s.config.Logger.Warn("the API server cannot list the pods whose metrics were asked for; the answer is empty", "error", err)
		return nil
	}
	var names []string
	seen := map[string]bool{}
	for _, p := range wanted {
		if p.Node != "" && !seen[p.Node] {
			seen[p.Node] = true
			names = append(names, p.Node)
		}
	}
	answers := s.ask(ctx, names)
	found := make([]kinds.Object, 0, len(wanted))
	for _, p := range wanted {
		answer := answers[p.Node]
		if answer == nil || answer.pods[p.UID] == nil {
			continue
		}
		if m := podMetrics(&p, answer.pods[p.UID]); m != nil {
			found = append(found, m)
		}
	}
	return found
}

func podMetrics(p *Target, stats *statsapi.PodStats) *metricsv1beta1.PodMetrics {
	m := &metricsv1beta1.PodMetrics{Window: metav1.Duration{Duration: window}}
	for i := range stats.Containers {
		usage, at := usageOf(stats.Containers[i].CPU, stats.Containers[i].Memory)
		if usage == nil {
			return nil
		}
		if m.Timestamp.IsZero() || at.Before(&m.Timestamp) {
			m.Timestamp = at
		}
		m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: stats.Containers[i].Name, Usage: usage})
	}
	if len(m.Containers) == 0 {
		return nil
	}
	m.ObjectMeta = p.meta(m.Timestamp)
	return m
}

// meta is the metadata of figures: names and labels of what they are about.
func (t *Target) meta(at metav1.Time) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name, Labels: t.Labels, CreationTimestamp: at}
}

// usageOf is cpu and memory; nil while one of them is not known.
func usageOf(cpu *statsapi.CPUStats, memory *statsapi.MemoryStats) (corev1.ResourceList, metav1.Time) {
	if cpu == nil || cpu.UsageNanoCores == nil || memory == nil || memory.WorkingSetBytes == nil {
		return nil, metav1.Time{}
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(*cpu.UsageNanoCores), resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(int64(*memory.WorkingSetBytes), resource.BinarySI),
	}, metav1.NewTime(cpu.Time.Truncate(time.Second))
}

// answer is what a node has said, not changed any more.
type answer struct {
	stats statsapi.NodeStats
	pods  map[string]*statsapi.PodStats
}

// ask asks nodes, each unless it has answered lately, and returns the answers of those that have.
func (s *Source) ask(ctx context.Context, names []string) map[string]*answer {
	answers := make([]*answer, len(names))
	var group sync.WaitGroup
	places := make(chan struct{}, parallel)
	for i, name := range names {
		n := s.node(name)
		if a := n.latest(s.config.now(), resolution); a != nil {
			answers[i] = a
			continue
		}
		group.Go(func() {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-places }()
			answers[i] = s.askNode(ctx, name, n)
		})
	}
	group.Wait()
	byName := make(map[string]*answer, len(names))
	for i, name := range names {
		byName[name] = answers[i]
	}
	s.forget()
	return byName
}

// forget drops nodes that nobody has asked for lately.
func (s *Source) forget() {
	now := s.config.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, n := range s.nodes {
		n.mu.Lock()
		if !n.asked.IsZero() && now.Sub(n.asked) > 10*staleness {
			delete(s.nodes, name)
		}
		n.mu.Unlock()
	}
}

func (s *Source) node(name string) *node {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name]
	if n == nil {
		n = &node{}
		s.nodes[name] = n
	}
	return n
}

// latest is the last answer if it is at most age old.
func (n *node) latest(now time.Time, age time.Duration) *answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.answered.IsZero() || now.Sub(n.answered) > age {
		return nil
	}
	return &answer{n.stats, n.pods}
}

// recently says whether a node was asked a moment ago, whatever came of it.
func (n *node) recently(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.asked.IsZero() && now.Sub(n.asked) <= resolution
}

func (s *Source) askNode(ctx context.Context, name string, n *node) *answer {
	n.asking.Lock()
	defer n.asking.Unlock()
	now := s.config.now()
	if n.recently(now) { // somebody else has asked while we waited, or it does not answer
		return n.latest(now, staleness)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := s.fetch(ctx, name)
	n.mu.Lock()
	n.asked = now
	if err == nil {
		n.answered, n.stats, n.pods = now, found.Node, map[string]*statsapi.PodStats{}
		for i := range found.Pods {
			n.pods[found.Pods[i].PodRef.UID] = &found.Pods[i]
		}
	}
	n.mu.Unlock()
	if err != nil {
		s.config.Logger.Debug("a kubelet did not tell its metrics; the answer lacks them", "node", name, "error", err)
	}
	return n.latest(now, staleness)
}

func (s *Source) fetch(ctx context.Context, name string) (*statsapi.Summary, error) {
	body, err := s.config.Fetch(ctx, name, summary, query)
	if err != nil {
		return nil, err
	}
	found := &statsapi.Summary{}
	if err := json.Unmarshal(body, found); err != nil {
		return nil, fmt.Errorf("read the summary of node %s: %w", name, err)
	}
	return found, nil
}
