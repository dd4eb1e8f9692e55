package stats

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/kubelet"
	"vigil/kubelet/cgroups"
	"vigil/kubelet/containerd/containerdtest"
	"vigil/kubelet/cri"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// realNode is a containerd of the test's own, with a network for pods and cgroups.
type realNode struct {
	t        testing.TB
	runtime  *cri.Runtime
	groups   *cgroups.Tree
	provider *Provider
	logs     string

	mu   sync.Mutex
	pods []*corev1.Pod
}

func startNode(t testing.TB) *realNode {
	t.Helper()
	daemon := containerdtest.Start(t)
	network := `{"cniVersion": "1.0.0", "name": "test", "plugins": [
		{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "dataDir": "/run/cni-ipam"}}]}`
	if err := os.MkdirAll(daemon.CNIConfDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(daemon.CNIConfDir(), "10-test.conflist"), []byte(network), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &realNode{t: t, logs: t.TempDir()}
	root := t.TempDir()
	var err error
	if n.runtime, err = cri.New(cri.Config{Endpoint: daemon.Endpoint(), RootDir: root, LogDir: n.logs, MemoryCapacity: 8 << 30}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.runtime.Close() })
	if n.groups, err = cgroups.New(cgroups.Config{Root: nstest.CgroupRoot() + "/" + t.Name()}); err != nil {
		t.Fatal(err)
	}
	if err := n.groups.Setup(corev1.ResourceList{"memory": resource.MustParse("4Gi")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	followed := make(chan error, 1)
	go func() { followed <- n.runtime.Follow(ctx, func(types.UID) {}) }()
	t.Cleanup(func() { cancel(); <-followed })
	eventually.Nil(t, "containerd has seen its network's configuration", func() error { return n.runtime.Ready(t.Context()) })
	n.provider = New(Config{
		Node: "node-1", Runtime: n.runtime.Client(), Images: n.runtime.ImageClient(), Groups: n.groups, RootDir: root, LogDir: n.logs, Period: time.Second,
		Pods: func() []*corev1.Pod {
			n.mu.Lock()
			defer n.mu.Unlock()
			return append([]*corev1.Pod(nil), n.pods...)
		},
	})
	return n
}

// run starts a pod with a container of the demo image for each command.
func (n *realNode) run(name string, commands ...[]string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)), SecurityContext: &corev1.PodSecurityContext{}},
	}
	for i, command := range commands {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("c%d", i), Image: "demo:1", Args: command, ImagePullPolicy: corev1.PullNever, TerminationMessagePath: "/dev/termination-log",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("64Mi")}, Requests: corev1.ResourceList{"memory": resource.MustParse("8Mi")}},
		})
	}
	parent, err := n.groups.Ensure(pod)
	if err != nil {
		return err
	}
	sandbox := kubelet.SandboxOptions{CgroupParent: parent, Hostname: name}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if _, err := n.runtime.RunSandbox(ctx, pod, sandbox); err != nil {
		return err
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		image, err := n.runtime.EnsureImage(ctx, kubelet.ImageRequest{Pod: pod, Container: c})
		if err != nil {
			return err
		}
		id, err := n.runtime.CreateContainer(ctx, pod, c, kubelet.ContainerOptions{ImageID: image.ID, Args: c.Args, Sandbox: sandbox})
		if err != nil {
			return err
		}
		if err := n.runtime.StartContainer(ctx, id); err != nil {
			return err
		}
	}
	n.mu.Lock()
	n.pods = append(n.pods, pod)
	n.mu.Unlock()
	return nil
}

func TestContainerd(t *testing.T) {
	n := startNode(t)
	if err := n.run("busy", []string{"spin"}, []string{"sh", "-c", "fill /tmp/big 3; sleep 1000"}); err != nil {
		t.Fatal(err)
	}
	if err := n.run("idle", []string{"sleep", "1000"}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "the summary is as the pods are", func() error { // containerd looks at writable layers every 10 s
		if err := n.provider.CountDisks(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := n.provider.Summary(t.Context(), 0, false)
		if err != nil {
			t.Fatal(err)
		}
		if why := unlike(s); why != "" {
			return fmt.Errorf("%s: %+v", why, s.Pods)
		}
		return nil
	})
	if separate, layers, err := n.provider.Layout(t.Context()); err != nil || separate != layers && layers {
		t.Errorf("layout: %v, %v, %v", separate, layers, err)
	}
}

// unlike says what is not yet as it should be.
func unlike(s *statsapi.Summary) string {
	if s.Node.Runtime == nil || *s.Node.Runtime.ImageFs.UsedBytes == 0 {
		return "no images"
	}
	if len(s.Pods) != 2 {
		return fmt.Sprintf("%d pods", len(s.Pods))
	}
	busy, idle := s.Pods[0], s.Pods[1]
	switch {
	case busy.CPU == nil || busy.CPU.UsageNanoCores == nil || *busy.CPU.UsageNanoCores < 1e8:
		return "the pod that spins is not busy"
	case *idle.CPU.UsageNanoCores > 5e7:
		return "the pod that sleeps is busy"
	case len(busy.Containers) != 2 || *busy.Containers[0].CPU.UsageNanoCores < 1e8:
		return "the container that spins is not busy"
	case *busy.Containers[0].Memory.WorkingSetBytes < 1<<19 || *busy.Containers[0].Memory.AvailableBytes > 64<<20:
		return "memory of a container"
	case *busy.ProcessStats.ProcessCount < 3:
		return "processes"
	case busy.Network == nil || busy.Network.Name != "eth0" || busy.Network.TxBytes == nil:
		return "network"
	case busy.Containers[1].Rootfs == nil || *busy.Containers[1].Rootfs.UsedBytes < 3<<20:
		return "the writable layer"
	case busy.EphemeralStorage == nil || *busy.EphemeralStorage.UsedBytes < 3<<20:
		return "ephemeral storage"
	}
	return ""
}

// BenchmarkRound measures what a round costs on a node with 100 pods:
//
//	go test -run '^$' -bench Round -benchtime 20x ./kubelet/stats
func BenchmarkRound(b *testing.B) {
	const many = 100
	n := startNode(b)
	failed := make(chan error, many)
	places := make(chan struct{}, 8)
	for i := range many {
		go func() {
			places <- struct{}{}
			defer func() { <-places }()
			failed <- n.run(fmt.Sprintf("pod-%d", i), []string{"sleep", "10000"})
		}()
	}
	for range many {
		if err := <-failed; err != nil {
			b.Fatal(err)
		}
	}
	b.Run("cgroups", func(b *testing.B) {
		measure(b, func() error {
			s, err := n.provider.Summary(context.Background(), 0, false)
			if err == nil && len(s.Pods) != many {
				err = fmt.Errorf("%d pods", len(s.Pods))
			}
			return err
		})
	})
	b.Run("disks", func(b *testing.B) {
		measure(b, func() error { return n.provider.CountDisks(context.Background()) })
	})
}

func measure(b *testing.B, work func() error) {
	b.ReportAllocs()
	before := cpuTime(b)
	rounds := 0
	for b.Loop() {
		if err := work(); err != nil {
			b.Fatal(err)
		}
		rounds++
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(rounds), "cpu-ms/op")
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/1024, "heap-KiB")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
