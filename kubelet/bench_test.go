package kubelet_test

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kubelet"
	"vigil/kubelet/simulated"
)

// BenchmarkNodes measures what simulated nodes cost, each with a connection of its own as in `vigil up --nodes N`, server's side
// included. An iteration registers the nodes and runs their pods; what follows is measured once, while nothing happens but leases
// and looks at the node's status:
//
//	go test -run '^$' -bench Nodes -benchtime 1x ./kubelet
func BenchmarkNodes(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{1, 0}, {50, 0}, {50, 10}, {200, 0}} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", size.nodes, size.pods), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchmarkNodes(b, size.nodes, size.pods)
			}
		})
	}
}

func benchmarkNodes(b *testing.B, nodes, pods int) {
	c := startCluster(b)
	kubelets := make([]*kubelet.Kubelet, nodes)
	for i := range kubelets {
		name := fmt.Sprintf("node-%d", i)
		k, err := kubelet.New(kubelet.Config{
			Server: c.Client("system:node:"+name, "system:nodes", "system:masters"), NodeName: name, Version: "v1.37.2",
			Runtime:   simulated.New(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), 24)),
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
		})
		if err != nil {
			b.Fatal(err)
		}
		kubelets[i] = k
	}
	before := measure(b)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for i, k := range kubelets {
		running.Go(func() { _ = k.Run(ctx) }) // it fails with ctx only
		for j := range pods {
			c.create(b, fmt.Sprintf("pod-%d-%d", i, j), func(p *corev1.Pod) { p.Spec.NodeName = fmt.Sprintf("node-%d", i) })
		}
	}
	eventually(b, "all leases are there and all pods run", func() bool {
		leases, err := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(b.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			b.Fatal(err)
		}
		running, err := c.client.CoreV1().Pods("default").List(b.Context(), metav1.ListOptions{ResourceVersion: "0", FieldSelector: "status.phase=Running"})
		if err != nil {
			b.Fatal(err)
		}
		return len(leases.Items) == nodes && len(running.Items) == nodes*pods
	}, nil)
	started := measure(b)
	b.ReportMetric((started.cpu-before.cpu).Seconds()*1000/float64(nodes), "start-cpu-ms/node")
	b.ReportMetric(float64(started.heap-before.heap)/1024/float64(nodes), "heap+stack-KiB/node")
	b.ReportMetric(float64(started.goroutines-before.goroutines)/float64(nodes), "goroutines/node")

	const window = 20 * time.Second // two leases, two looks at the status
	start := cpuTime(b)
	<-time.After(window)
	b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/window.Seconds()/float64(nodes), "idle-µs/s/node")
}

// usage is what this process has used.
type usage struct {
	cpu              time.Duration
	heap, goroutines int // heap in bytes, after a collection
}

func measure(b *testing.B) usage {
	b.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return usage{cpu: cpuTime(b), heap: int(m.HeapAlloc + m.StackInuse), goroutines: runtime.NumGoroutine()}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
