package stats

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet/cgroups"
)

// node is a runtime with its cgroups, as much of it as is asked.
type node struct {
	containers []*runtimeapi.Container
	sandboxes  []*runtimeapi.PodSandbox
	stats      []*runtimeapi.ContainerStats
	usage      map[string]cgroups.Usage
	images     string // a directory
	failure    error
}

func (n *node) ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: n.containers}, n.failure
}

func (n *node) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: n.sandboxes}, n.failure
}

func (n *node) ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest, ...grpc.CallOption) (*runtimeapi.ListContainerStatsResponse, error) {
	return &runtimeapi.ListContainerStatsResponse{Stats: n.stats}, n.failure
}

func (n *node) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest, ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error) {
	fs := &runtimeapi.FilesystemUsage{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: n.images}, UsedBytes: &runtimeapi.UInt64Value{Value: 12345}}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{fs}}, n.failure
}

func (n *node) Path(pod *corev1.Pod) string { return "/kubepods/pod" + string(pod.UID) }
func (n *node) PodsPath() string            { return "/kubepods" }

func (n *node) Usage(group string) (cgroups.Usage, error) {
	u, ok := n.usage[group]
	if !ok {
		return cgroups.Usage{}, fmt.Errorf("%w: %s", cgroups.ErrGone, group)
	}
	return u, nil
}

func (n *node) Processes(group string) ([]int, error) {
	if strings.HasSuffix(group, "/sandbox-a") {
		return []int{os.Getpid()}, nil
	}
	return nil, cgroups.ErrGone
}

// used is a group at a time, after so much CPU time.
func used(at time.Time, cpu time.Duration, workingSet uint64) cgroups.Usage {
	return cgroups.Usage{Time: at, CPU: cpu, HasCPU: true, Memory: workingSet + 1000, WorkingSet: workingSet, HasMemory: true, Pids: 3, HasPids: true}
}

func labels(uid, container string) map[string]string {
	return map[string]string{podUIDLabel: uid, containerNameLabel: container}
}

// fixture is a node with a pod "a" of two containers, "known" with a cgroup and "asked" without.
func fixture(t *testing.T) (*node, *Provider, time.Time) {
	t.Helper()
	start := time.Now()
	n := &node{
		images:    t.TempDir(),
		sandboxes: []*runtimeapi.PodSandbox{{Id: "sandbox-a", CreatedAt: 1e9, Labels: labels("a", "")}},
		containers: []*runtimeapi.Container{
			{Id: "1", Labels: labels("a", "known"), CreatedAt: 2e9}, {Id: "2", Labels: labels("a", "asked"), CreatedAt: 3e9}, {Id: "3", Labels: labels("orphan", "x")},
		},
		stats: []*runtimeapi.ContainerStats{{
			Attributes:    &runtimeapi.ContainerAttributes{Id: "2", Labels: labels("a", "asked")},
			Cpu:           &runtimeapi.CpuUsage{UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: 5e9}},
			Memory:        &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: 77}},
			WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: &runtimeapi.UInt64Value{Value: 4096}, InodesUsed: &runtimeapi.UInt64Value{Value: 2}},
		}},
		usage: map[string]cgroups.Usage{
			"/": used(start, time.Minute, 5e8), "/kubepods": used(start, time.Second, 2e6), "/kubepods/poda": used(start, time.Second, 1e6), "/kubepods/poda/1": used(start, time.Second, 9e5),
		},
	}
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "pods/a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "pods/a/etc-hosts"), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	logs := filepath.Join(root, "logs/default_pod-a_a/known")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(logs, "0.log"), make([]byte, 20<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	pods := []*corev1.Pod{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "pod-a", Namespace: "default", UID: types.UID("a")},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "known", Image: "demo", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("500m")}}}, {Name: "asked"}},
			},
		},
		{ObjectMeta: metav1.ObjectMeta{Name: "does-not-run", Namespace: "default", UID: "b"}},
	}
	p := New(Config{
		Node: "node-1", Pods: func() []*corev1.Pod { return pods }, Runtime: n, Images: n, Groups: n, RootDir: root, LogDir: filepath.Join(root, "logs"),
		Period: 2 * time.Second,
		Volumes: func(_ context.Context, pod types.UID) []Volume {
			if pod != "a" {
				return nil
			}
			return []Volume{{Name: "scratch", Local: true, Bytes: 100 << 10, Inodes: 2}, {Name: "claimed", Claim: "data", Bytes: 1 << 30}}
		},
	})
	return n, p, start
}

func TestSummary(t *testing.T) {
	n, p, start := fixture(t)
	if err := p.CountDisks(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err := p.Summary(t.Context(), 0, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Pods) != 1 || first.Pods[0].CPU.UsageNanoCores != nil {
		t.Fatalf("first: %+v", first.Pods)
	}
	later := start.Add(2 * time.Second)
	n.usage["/"] = used(later, time.Minute+3*time.Second, 5e8)
	n.usage["/kubepods/poda"] = used(later, 2*time.Second, 1e6)
	n.usage["/kubepods/poda/1"] = used(later, 1500*time.Millisecond, 9e5)
	s, err := p.Summary(t.Context(), 0, false)
	if err != nil {
		t.Fatal(err)
	}
	if s.Node.NodeName != "node-1" || *s.Node.CPU.UsageNanoCores != 1.5e9 || *s.Node.Memory.WorkingSetBytes != 5e8 || s.Node.Memory.AvailableBytes == nil ||
		*s.Node.Fs.CapacityBytes == 0 || *s.Node.Runtime.ImageFs.UsedBytes != 12345 || *s.Node.Rlimit.MaxPID == 0 || len(s.Node.SystemContainers) != 2 {
		t.Errorf("node: %+v", s.Node)
	}
	pod := s.Pods[0]
	if pod.PodRef.Name != "pod-a" || *pod.CPU.UsageNanoCores != 5e8 || *pod.Memory.WorkingSetBytes != 1e6 || *pod.ProcessStats.ProcessCount != 3 || pod.StartTime.Unix() != 1 || pod.Network == nil && len(readNetwork("/proc/self/net/dev")) > 0 {
		t.Errorf("pod: %+v", pod)
	}
	if len(pod.Containers) != 2 {
		t.Fatalf("containers: %+v", pod.Containers)
	}
	asked, known := pod.Containers[0], pod.Containers[1]
	if known.Name != "known" || *known.CPU.UsageNanoCores != 25e7 || *known.CPU.UsageCoreNanoSeconds != 15e8 || *known.Memory.WorkingSetBytes != 9e5 || *known.Logs.UsedBytes < 20<<10 || known.Rootfs != nil {
		t.Errorf("known: %+v", known)
	}
	if asked.Name != "asked" || *asked.CPU.UsageCoreNanoSeconds != 5e9 || *asked.Memory.WorkingSetBytes != 77 || *asked.Rootfs.UsedBytes != 4096 || *asked.Rootfs.InodesUsed != 2 {
		t.Errorf("asked: %+v", asked)
	}
	if len(pod.VolumeStats) != 2 || pod.VolumeStats[0].Name != "scratch" || *pod.VolumeStats[0].UsedBytes != 100<<10 || *pod.VolumeStats[0].InodesUsed != 2 || pod.VolumeStats[1].PVCRef.Name != "data" {
		t.Errorf("volumes: %+v", pod.VolumeStats)
	}
	if sum := *pod.EphemeralStorage.UsedBytes; sum < 124<<10 || sum > 160<<10 {
		t.Errorf("ephemeral storage: %d", sum)
	}
	brief, err := p.Summary(t.Context(), time.Hour, true)
	if err != nil || brief.Node.Fs != nil || brief.Pods[0].VolumeStats != nil || *brief.Node.CPU.UsageNanoCores != 1.5e9 {
		t.Errorf("cpu and memory only: %+v, %v", brief, err)
	}
}

func TestSummary_RuntimeIsDown(t *testing.T) {
	n, p, _ := fixture(t)
	n.failure = context.DeadlineExceeded
	if _, err := p.Summary(t.Context(), 0, false); err == nil {
		t.Error("has figures")
	}
	if err := p.CountDisks(t.Context()); err == nil {
		t.Error("counts")
	}
	answer := httptest.NewRecorder()
	p.ServeResource().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics/resource", nil))
	if !strings.Contains(answer.Body.String(), "\nresource_scrape_error 1\n") {
		t.Errorf("metrics: %s", answer.Body)
	}
}

func TestMetrics(t *testing.T) {
	_, p, _ := fixture(t)
	if err := p.CountDisks(t.Context()); err != nil {
		t.Fatal(err)
	}
	fetch := func(path string) string {
		answer := httptest.NewRecorder()
		handler := p.ServeResource()
		if path == "/metrics/cadvisor" {
			handler = p.ServeCadvisor()
		}
		handler.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		if answer.Code != 200 {
			t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
		}
		return answer.Body.String()
	}
	text := fetch("/metrics/resource")
	for _, want := range []string{
		"# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the node in core-seconds\n# TYPE node_cpu_usage_seconds_total counter\nnode_cpu_usage_seconds_total 60 1",
		`container_cpu_usage_seconds_total{container="known",namespace="default",pod="pod-a"} 1 1`,
		`container_memory_working_set_bytes{container="asked",namespace="default",pod="pod-a"} 77 1`,
		`container_start_time_seconds{container="known",namespace="default",pod="pod-a"} 2` + "\n",
		`pod_memory_working_set_bytes{namespace="default",pod="pod-a"} 1e+06 1`,
		"\nresource_scrape_error 0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics/resource has no %q:\n%s", want, text)
		}
	}
	text = fetch("/metrics/cadvisor")
	for _, want := range []string{
		`container_cpu_usage_seconds_total{container="known",cpu="total",id="/kubepods/poda/1",image="demo",name="1",namespace="default",pod="pod-a"} 1 1`,
		`container_memory_working_set_bytes{container="",id="/kubepods/poda",image="",name="",namespace="default",pod="pod-a"} 1e+06 1`,
		`container_spec_cpu_quota{container="known",id="/kubepods/poda/1",image="demo",name="1",namespace="default",pod="pod-a"} 50000 1`,
		`container_spec_cpu_shares{container="known",id="/kubepods/poda/1",image="demo",name="1",namespace="default",pod="pod-a"} 512 1`,
		`container_memory_failures_total{container="",failure_type="pgmajfault",id="/",image="",name="",namespace="",pod="",scope="hierarchy"} 0 1`,
		"\nmachine_cpu_cores ",
		"\ncontainer_scrape_error 0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics/cadvisor has no %q:\n%s", want, text)
		}
	}
}

func TestCollector(t *testing.T) {
	_, p, _ := fixture(t)
	pods := p.config.Pods()
	pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{
		{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, {State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
	}
	if err := p.CountDisks(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `# HELP kubelet_node_name The node's name. The count is always 1.
# TYPE kubelet_node_name gauge
kubelet_node_name{node="node-1"} 1
# HELP kubelet_running_containers Number of containers currently running
# TYPE kubelet_running_containers gauge
kubelet_running_containers{container_state="exited"} 1
kubelet_running_containers{container_state="running"} 1
# HELP kubelet_running_pods Number of pods that have a running pod sandbox
# TYPE kubelet_running_pods gauge
kubelet_running_pods 1
`
	if err := testutil.CollectAndCompare(p.Collector(), strings.NewReader(want), "kubelet_node_name", "kubelet_running_containers", "kubelet_running_pods"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(p.Collector(), "kubelet_volume_stats_capacity_bytes", "kubelet_volume_stats_used_bytes"); n != 2 {
		t.Errorf("%d series of the claim", n)
	}
}

func TestRates(t *testing.T) {
	r := newRates(5 * time.Second)
	start := time.Unix(1000, 0)
	at := func(seconds int, cpu time.Duration) *uint64 {
		return r.observe("g", start.Add(time.Duration(seconds)*time.Second), cpu)
	}
	if got := at(0, time.Second); got != nil {
		t.Errorf("first: %d", *got)
	}
	if got := at(2, 2*time.Second); got != nil {
		t.Errorf("too soon: %d", *got)
	}
	if got := at(10, 6*time.Second); got == nil || *got != 5e8 {
		t.Errorf("after 10 s: %v", got)
	}
	if got := at(11, 16*time.Second); got == nil || *got != 5e8 {
		t.Errorf("too soon again: %v", got)
	}
	if got := at(20, time.Second); got != nil {
		t.Errorf("another group of the same name: %d", *got)
	}
	r.forget()
	if r.forget(); len(r.bases) != 0 {
		t.Error("remembers what has gone")
	}
}

func TestCount(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, 100<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "file"), filepath.Join(dir, "again")); err != nil {
		t.Fatal(err)
	}
	if got := count(t.Context(), dir); got.bytes < 100<<10 || got.bytes >= 150<<10 || got.inodes != 2 {
		t.Errorf("a directory with a file of 100 KiB that has two names: %+v", got)
	}
	if got := count(t.Context(), filepath.Join(dir, "nothing")); got != (usedDisk{}) {
		t.Errorf("nothing: %+v", got)
	}
}

func TestReadNetwork(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dev")
	table := `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
  eth0: 100 10 1 2 0 0 0 0 200 20 3 4 0 0 0 0
vethabc: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
`
	if err := os.WriteFile(file, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	want := networkInterface{name: "eth0", rxBytes: 100, rxPackets: 10, rxErrors: 1, rxDropped: 2, txBytes: 200, txPackets: 20, txErrors: 3, txDropped: 4}
	if got := readNetwork(file); len(got) != 1 || got[0] != want {
		t.Errorf("got %+v", got)
	}
}

func TestRun_CountsNewPodsAtOnceAndEnds(t *testing.T) {
	_, p, _ := fixture(t)
	p.config.Period, p.config.DiskPeriod = time.Hour, time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	for {
		s, err := p.Summary(t.Context(), 0, false)
		if err != nil {
			t.Fatal(err)
		}
		if s.Pods[0].EphemeralStorage != nil && s.Node.Runtime != nil {
			break
		}
	}
	cancel()
	if err := <-done; err != context.Canceled {
		t.Errorf("ended with %v", err)
	}
}
