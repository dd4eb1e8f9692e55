package server_test

import (
	"bufio"
	"fmt"
	"io"
	goruntime "runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"
)

// BenchmarkFollow has 100 clients follow one log through the API server. An operation is a line, from the file to the last of them; KB/follower
// is what all three ends of a stream hold together: client, API server and kubelet are in this process.
func BenchmarkFollow(b *testing.B) {
	const followers = 100
	c := start(b)
	c.node.append(b, "web-main", entry("stdout", "0"))
	heap := func() uint64 {
		goruntime.GC()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := heap()
	var line sync.WaitGroup
	streams := make([]io.ReadCloser, followers)
	line.Add(followers)
	var all sync.WaitGroup
	for i := range followers {
		stream, err := c.client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		streams[i] = stream
		all.Go(func() {
			for r := bufio.NewScanner(stream); r.Scan(); {
				line.Done()
			}
		})
	}
	line.Wait()
	held := float64(heap()-before) / followers / 1024
	for n := 1; b.Loop(); n++ {
		line.Add(followers)
		c.node.append(b, "web-main", entry("stdout", fmt.Sprint(n)))
		line.Wait()
	}
	b.ReportMetric(held, "KB/follower")
	for _, s := range streams {
		s.Close()
	}
	all.Wait()
}

// BenchmarkExec runs a command through the API server and the kubelet, by WebSocket and SPDY.
func BenchmarkExec(b *testing.B) {
	c := start(b)
	for _, p := range protocols {
		b.Run(p.name, func(b *testing.B) {
			for b.Loop() {
				e, err := p.dial(c.Admin(), c.session("web", "exec", &corev1.PodExecOptions{Command: []string{"echo"}, Stdout: true}))
				if err != nil {
					b.Fatal(err)
				}
				if err := e.StreamWithContext(b.Context(), remotecommand.StreamOptions{Stdout: io.Discard}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
