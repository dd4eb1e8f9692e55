package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"vigil/apiserver/apiservertest"
	"vigil/cluster"
	"vigil/internal/memory"
	"vigil/internal/protobufclient"
	"vigil/kubelet/node"
)

const (
	// nodesVariable names the directory of the nodes' kubeconfigs to the process that has the nodes.
	nodesVariable = "VIGIL_BENCH_NODES"
	// profilesVariable names a directory that this process leaves heap.prof and goroutines.txt in; it then samples every allocation.
	profilesVariable = "VIGIL_BENCH_PROFILES"
)

// BenchmarkNodes measures what simulated nodes cost, run as `vigil up --nodes N` runs them: each with a connection, a certificate and a
// kubeconfig of its own. The nodes are in one process and the API server with its store is in another, so that node-* is what the
// nodes use and server-* what they make the server use. An iteration registers the nodes and runs their pods; memory, and the CPU time
// of a second, are measured while nothing happens but leases and looks at statuses. It needs Linux.
//
//	go test -run '^$' -bench Nodes -benchtime 1x -timeout 30m ./cluster
//
// -KiB is live heap and stacks after a collection, -rss-KiB what the process has grown by, garbage and all, from before the first node.
// VIGIL_BENCH_PROFILES names a directory for the node process's profiles.
func BenchmarkNodes(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{200, 0}, {200, 10}, {2000, 0}, {2000, 10}} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", size.nodes, size.pods), func(b *testing.B) {
			for b.Loop() {
				benchmarkNodes(b, size.nodes, size.pods)
			}
		})
	}
}

func benchmarkNodes(b *testing.B, nodes, pods int) {
	server := apiservertest.Start(b)
	config := protobufclient.Config(server.Admin())
	client := kubernetes.NewForConfigOrDie(config)
	for _, name := range []string{corev1.NamespaceNodeLease, "default"} {
		_, err := client.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	for i := range nodes {
		writeKubeconfig(b, filepath.Join(dir, strconv.Itoa(i)), server.Client("system:node:"+strconv.Itoa(i), "system:nodes"))
	}
	process := startNodes(b, dir)
	defer process.end(b)
	serverBefore, nodesBefore := measure(b), process.ask(b)

	began := time.Now()
	process.ask(b) // starts them
	creating, ctx := errgroup.WithContext(b.Context())
	creating.SetLimit(8)
	for i := range nodes {
		creating.Go(func() error { return createPods(ctx, client, strconv.Itoa(i), pods) })
	}
	if err := creating.Wait(); err != nil {
		b.Fatal(err)
	}
	waitForNodes(b, client, nodes, nodes*pods)
	b.ReportMetric(time.Since(began).Seconds(), "start-s")
	<-time.After(20 * time.Second) // looks at the status are spread over 10 s; what the start has left is trimmed

	const window = 20 * time.Second // two leases, two looks at the status
	serverIdle, nodesIdle := measure(b), process.ask(b)
	<-time.After(window)
	serverAfter, nodesAfter := measure(b), process.ask(b)
	each := func(value float64) float64 { return value / float64(nodes) }
	for _, side := range []struct {
		name                string
		before, idle, after usage
	}{{"node", nodesBefore, nodesIdle, nodesAfter}, {"server", serverBefore, serverIdle, serverAfter}} {
		b.ReportMetric(each(float64(side.after.Live-side.before.Live)/1024), side.name+"-KiB")
		b.ReportMetric(each(float64(side.after.RSS-side.before.RSS)/1024), side.name+"-rss-KiB")
		b.ReportMetric(each(float64((side.after.Begun-side.idle.Ended).Microseconds())/window.Seconds()), side.name+"-µs/s")
		b.ReportMetric(each(float64(side.after.Goroutines-side.before.Goroutines)), side.name+"-goroutines")
	}
	b.ReportMetric(each(float64(nodesAfter.Stacks-nodesBefore.Stacks)/1024), "node-stack-KiB")
	b.ReportMetric(0, "ns/op") // says nothing here
}

func createPods(ctx context.Context, client kubernetes.Interface, node string, pods int) error {
	for i := range pods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%s-%d", node, i)},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "image"}}},
		}
		if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// waitForNodes waits until there are so many leases and running pods.
func waitForNodes(b *testing.B, client kubernetes.Interface, nodes, pods int) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			b.Fatal(err)
		}
		if len(leases.Items) == nodes {
			running, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{ResourceVersion: "0", FieldSelector: "status.phase=Running"})
			if err != nil {
				b.Fatal(err)
			}
			if len(running.Items) == pods {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.Fatalf("%d of %d leases after 10 minutes, or not all pods run", len(leases.Items), nodes)
		}
	}
}

func writeKubeconfig(b *testing.B, file string, config *rest.Config) {
	b.Helper()
	written := clientcmdapi.NewConfig()
	written.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	written.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	written.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	written.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*written, file); err != nil {
		b.Fatal(err)
	}
}

// nodeProcess is the process that has the nodes. It answers each line with its usage, and starts the nodes after the first answer.
type nodeProcess struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	answers *json.Decoder
}

func startNodes(b *testing.B, dir string) *nodeProcess {
	b.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), nodesVariable+"="+dir)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	return &nodeProcess{command, stdin, json.NewDecoder(stdout)}
}

func (p *nodeProcess) ask(b *testing.B) usage {
	b.Helper()
	if _, err := io.WriteString(p.stdin, "\n"); err != nil {
		b.Fatal(err)
	}
	var u usage
	if err := p.answers.Decode(&u); err != nil {
		b.Fatal(err)
	}
	return u
}

// end ends the process, which takes the end of its input for a signal to.
func (p *nodeProcess) end(b *testing.B) {
	if err := p.stdin.Close(); err != nil {
		b.Error(err)
	}
	if err := p.command.Wait(); err != nil {
		b.Error(err)
	}
}

// nodesMain is the process that has the nodes: one for each kubeconfig in dir.
func nodesMain(dir string) (code int) {
	profiles := os.Getenv(profilesVariable)
	if profiles != "" {
		runtime.MemProfileRate = 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { memory.Pace(ctx); return nil }) // as beside an API server
		group.Go(func() error {
			defer cancel()
			return answer(group, ctx, dir, profiles)
		})
		return group.Wait()
	}
	if err := cluster.Alone(ctx, run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// answer answers the lines of the input with this process's usage until the input ends. With the second it starts the nodes.
func answer(group *errgroup.Group, ctx context.Context, dir, profiles string) error {
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for asked := 1; lines.Scan(); asked++ {
		u, err := use()
		if err != nil {
			return err
		}
		if asked == 2 {
			if err := runNodes(group, ctx, dir); err != nil {
				return err
			}
		}
		if asked == 4 && profiles != "" {
			if err := writeProfiles(profiles); err != nil {
				return err
			}
		}
		if err := out.Encode(u); err != nil {
			return err
		}
	}
	return lines.Err()
}

func runNodes(group *errgroup.Group, ctx context.Context, dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, file := range files {
		group.Go(func() error {
			slots <- struct{}{}
			defer func() { <-slots }()
			run, err := node.Prepare(ctx, node.Config{
				Kubeconfig: filepath.Join(dir, file.Name()), NodeName: file.Name(), Runtime: node.RuntimeSimulated, Version: cluster.KubernetesVersion,
				PodCIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24),
			})
			if err == nil {
				group.Go(func() error { return run(ctx) })
			}
			return err
		})
	}
	return nil
}

func writeProfiles(dir string) error {
	for _, it := range []struct {
		profile, file string
		debug         int
	}{{"heap", "heap.prof", 0}, {"goroutine", "goroutines.txt", 1}} {
		f, err := os.Create(filepath.Join(dir, it.file))
		if err != nil {
			return err
		}
		err = pprof.Lookup(it.profile).WriteTo(f, it.debug)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// usage is what a process uses, memory in bytes.
type usage struct {
	Begun, Ended time.Duration // CPU time used before and after the collection that Live and Stacks need
	RSS          int           // before it
	Live, Stacks int           // Live is the heap and the stacks
	Goroutines   int
}

func measure(b *testing.B) usage {
	b.Helper()
	u, err := use()
	if err != nil {
		b.Fatal(err)
	}
	return u
}

func use() (usage, error) {
	begun, err := cpuTime()
	if err != nil {
		return usage{}, err
	}
	pages, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return usage{}, err
	}
	rss, err := strconv.Atoi(strings.Fields(string(pages))[1])
	if err != nil {
		return usage{}, err
	}
	runtime.GC()
	runtime.GC() // what the first has found unused is swept, and what had a cleanup is gone
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	ended, err := cpuTime()
	return usage{
		Begun: begun, Ended: ended, RSS: rss * os.Getpagesize(),
		Live: int(m.HeapAlloc + m.StackInuse), Stacks: int(m.StackInuse), Goroutines: runtime.NumGoroutine(),
	}, err
}

func cpuTime() (time.Duration, error) {
	var times syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &times)
	return time.Duration(times.Utime.Nano() + times.Stime.Nano()), err
}
