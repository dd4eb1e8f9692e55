package apiserver_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/apiservertest"
)

// counter watches with as little work as a client can do: it counts the lines that it gets, or in a compressed stream the
// empty blocks at the ends of events.
type counter struct {
	mark    string
	lines   atomic.Int64
	bytes   atomic.Int64
	wanted  atomic.Int64
	reached chan struct{} // holds one: there may be as many as are wanted
}

func newCounter() *counter { return &counter{mark: "\n", reached: make(chan struct{}, 1)} }

func (c *counter) add(n int64) {
	if c.lines.Add(n) < c.wanted.Load() {
		return
	}
	select {
	case c.reached <- struct{}{}:
	default:
	}
}

// count opens watches of path(i), each on a connection of its own, which count the events they get.
func count(b *testing.B, s *apiservertest.Server, n int, path func(i int) string, header ...string) *counter {
	b.Helper()
	c := newCounter()
	if len(header) > 0 {
		c.mark = "\x00\x00\xff\xff"
	}
	var began sync.WaitGroup
	for i := range n {
		f := dialFramer(b, s, 1<<31-1)
		f.must(f.WriteWindowUpdate(0, 1<<31-1-65_535))
		f.get(path(i), "application/json", header...)
		began.Add(1)
		go c.read(f, &began)
	}
	began.Wait()
	return c
}

// read ends with the connection, which the end of the test closes.
func (c *counter) read(f *framer, began *sync.WaitGroup) {
	f.must(f.conn.SetDeadline(time.Time{}))
	in := bufio.NewReaderSize(f.conn, 16<<10)
	mark := []byte(c.mark)
	behind := len(mark) - 1 // bytes of the frame before that stand before the payload
	payload, head := make([]byte, behind+16<<10), new([9]byte)
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		p := payload[behind:][:binary.BigEndian.Uint32(head[:4])>>8]
		if _, err := io.ReadFull(in, p); err != nil {
			return
		}
		switch t := http2.FrameType(head[3]); {
		case t == http2.FrameHeaders:
			began.Done()
		case t == http2.FrameData:
			c.bytes.Add(int64(len(p)))
			all := payload[:behind+len(p)]
			n := bytes.Count(all, mark)
			copy(payload, all[len(p):])
			if n > 0 {
				c.add(int64(n))
			}
		case t == http2.FramePing && head[4] == 0:
			if f.WritePing(true, [8]byte(p)) != nil {
				return
			}
		}
	}
}

// await returns when so many lines have come in all.
func (c *counter) await(n int64) {
	for c.wanted.Store(n); c.lines.Load() < n; {
		<-c.reached
	}
}

// cpuMicros is the processor time that this process has used: server, etcd and clients.
func cpuMicros(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return (u.Utime.Nano() + u.Stime.Nano()) / 1000
}

// BenchmarkFanout delivers a change to many watchers over TLS and HTTP/2, each with a connection: one after the other, and with 16
// writers that do not wait for the watchers. Processor time is of all: server, etcd, clients.
func BenchmarkFanout(b *testing.B) {
	for _, watchers := range []int{100, 1000} {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("watchers=%d/writers=%d", watchers, writers), func(b *testing.B) {
				s := apiservertest.Start(b)
				k := s.Clientset()
				benchPods(b, k, writers)
				c := count(b, s, watchers, func(int) string {
					return "/api/v1/pods?watch=true&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
				})
				b.ReportAllocs()
				cpu := cpuMicros(b)
				updates := 0
				for b.Loop() {
					var wg sync.WaitGroup
					for i := range writers {
						wg.Go(func() { touch(b, k, i, updates) })
					}
					wg.Wait()
					updates++
					if writers == 1 {
						c.await(int64(updates * watchers))
					}
				}
				deliveries := int64(updates * writers * watchers)
				c.await(deliveries)
				b.ReportMetric(float64(deliveries)/b.Elapsed().Seconds(), "deliveries/s")
				b.ReportMetric(float64(cpuMicros(b)-cpu)/float64(deliveries), "cpu-us/delivery")
			})
		}
	}
}

// BenchmarkFanout_Compressed delivers a change to 1,000 watchers, plain and compressed. Memory for each watcher is that of its whole
// connection, client included.
func BenchmarkFanout_Compressed(b *testing.B) {
	const watchers = 1000
	for _, bm := range []struct {
		name   string
		header []string
	}{{"plain", nil}, {"gzip", []string{"accept-encoding", "gzip"}}} {
		b.Run(bm.name, func(b *testing.B) {
			s := apiservertest.Start(b, compressWatches)
			k := s.Clientset()
			benchPods(b, k, 1)
			before := heapInUse()
			c := count(b, s, watchers, func(int) string {
				return "/api/v1/pods?watch=true&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
			}, bm.header...)
			cpu := cpuMicros(b)
			updates := 0
			for b.Loop() {
				touch(b, k, 0, updates)
				updates++
				c.await(int64(updates * watchers))
			}
			deliveries := float64(updates * watchers)
			b.ReportMetric(float64(cpuMicros(b)-cpu)/deliveries, "cpu-us/delivery")
			b.ReportMetric(float64(c.bytes.Load())/deliveries, "B/delivery")
			b.ReportMetric(float64(heapInUse()-before)/watchers, "heap-B/watcher")
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// touch writes the status of a pod.
func touch(b *testing.B, k *kubernetes.Clientset, pod, n int) {
	patch := fmt.Appendf(nil, `{"status":{"message":"%d"}}`, n)
	if _, err := k.CoreV1().Pods("bench").Patch(b.Context(), benchPod(pod).Name, "application/merge-patch+json", patch, metav1.PatchOptions{}, "status"); err != nil {
		b.Error(err)
	}
}

// BenchmarkSelective changes pods beside watchers that each select one node.
func BenchmarkSelective(b *testing.B) {
	for _, watchers := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			s := apiservertest.Start(b)
			k := s.Clientset()
			benchPods(b, k, 10)
			c := count(b, s, watchers, func(i int) string {
				return fmt.Sprintf("/api/v1/pods?watch=true&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&fieldSelector=spec.nodeName%%3Dnode-%d", i)
			})
			b.ReportAllocs()
			cpu := cpuMicros(b)
			updates := 0
			for b.Loop() {
				touch(b, k, updates%10, updates)
				updates++
				if watchers > 0 {
					c.await(int64(updates))
				}
			}
			b.ReportMetric(float64(cpuMicros(b)-cpu)/float64(updates), "cpu-us/update")
		})
	}
}

// BenchmarkStorm starts 50 watches at once, with 1000 initial events each.
func BenchmarkStorm(b *testing.B) {
	s := apiservertest.Start(b)
	benchPods(b, s.Clientset(), 1000)
	const watchers, pods = 50, 1000
	one := newClient(b, s.Admin()).get("/api/v1/namespaces/bench/pods/" + benchPod(0).Name).body
	b.SetBytes(watchers * pods * int64(len(one)))
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		gate := make(chan struct{})
		var framers []*framer
		for range watchers {
			f := dialFramer(b, s, 1<<31-1)
			f.must(f.WriteWindowUpdate(0, 1<<31-1-65_535))
			framers = append(framers, f)
		}
		c := newCounter()
		var began, opened sync.WaitGroup
		began.Add(watchers)
		for _, f := range framers {
			opened.Go(func() {
				<-gate
				f.get("/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "application/json")
				go c.read(f, &began)
			})
		}
		b.StartTimer()
		close(gate)
		c.await(watchers * (pods + 1))
		b.StopTimer()
		opened.Wait()
		for _, f := range framers {
			f.conn.Close()
		}
		b.StartTimer()
	}
}
