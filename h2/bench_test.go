package h2

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The benchmarks run the server in this process and its clients in another, so that getrusage and the heap say what serving costs.
// Clients are net/http's. Every benchmark serves with net/http's HTTP/2 server and with this package's:
//
//	go test -run - -bench . -benchtime 3s ./h2

// servers starts both servers with a handler, one after the other.
var servers = []struct {
	name  string
	start func(testing.TB, http.Handler) string
}{
	{"nethttp", func(t testing.TB, h http.Handler) string {
		return startUpstream(t, h, func(hs *http.Server) { hs.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1000} })
	}},
	{"h2", func(t testing.TB, h http.Handler) string { return start(t, &Server{Handler: h}).url }},
}

// peer is the process of the clients.
type peer struct {
	b   *testing.B
	in  io.Writer
	out *bufio.Reader
}

const peerVariable = "VIGIL_H2_BENCHMARK_CLIENT"

func startPeer(b *testing.B) *peer {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return &peer{b, in, bufio.NewReader(out)}
}

// do has the peer carry out a command and waits until it has.
func (p *peer) do(format string, args ...any) {
	p.b.Helper()
	fmt.Fprintf(p.in, format+"\n", args...)
	if line, err := p.out.ReadString('\n'); err != nil || line != "ok\n" {
		p.b.Fatalf("client: %q, %v", line, err)
	}
}

// servePeer is the other process. Its commands are "connect N", "get URL N" (N requests over all connections), "watch URL" (on each
// connection, for ever).
func servePeer() {
	var clients []*http.Client
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		n, _ := strconv.Atoi(f[len(f)-1])
		switch f[0] {
		case "connect":
			for range n {
				config := clientTLS()
				config.InsecureSkipVerify = true // the other process has made the certificate
				clients = append(clients, &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}})
			}
		case "get":
			var left atomic.Int64
			left.Store(int64(n))
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						resp, err := c.Get(f[1])
						if err != nil {
							panic(err)
						}
						if _, err := io.Copy(io.Discard, resp.Body); err != nil {
							panic(err)
						}
						resp.Body.Close()
					}
				})
			}
			wg.Wait()
		case "watch":
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() {
					resp, err := c.Get(f[1])
					if err != nil {
						panic(err)
					}
					go io.Copy(io.Discard, resp.Body)
				})
			}
			wg.Wait()
		}
		fmt.Println("ok")
	}
}

// meter measures what this process spends.
type meter struct {
	cpu     time.Duration
	mallocs uint64
	begun   time.Time
}

func startMeter() meter {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return meter{cpuTime(), m.Mallocs, time.Now()}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report says what each of n units cost.
func (m meter) report(b *testing.B, n int, unit string) {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	b.ReportMetric(float64((cpuTime()-m.cpu).Nanoseconds())/float64(n)/1000, "cpu-µs/"+unit)
	b.ReportMetric(float64(now.Mallocs-m.mallocs)/float64(n), "allocs/"+unit)
	b.ReportMetric(float64(n)/time.Since(m.begun).Seconds(), unit+"/s")
}

// BenchmarkGet: a response of 1 KB over 16 connections.
func BenchmarkGet(b *testing.B) {
	body := bytes.Repeat([]byte("k"), 1024)
	for _, s := range servers {
		b.Run(s.name, func(b *testing.B) {
			url := s.start(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Cache-Control", "no-cache, private")
				_, _ = w.Write(body)
			}))
			p := startPeer(b)
			p.do("connect 16")
			p.do("get %s 1000", url)
			const batch = 2000
			m, n := startMeter(), 0
			for b.Loop() {
				p.do("get %s %d", url, batch)
				n += batch
			}
			m.report(b, n, "get")
		})
	}
}

// BenchmarkList: one client reads 47 MB, which the handler writes in one piece or in pieces of 64 KiB.
func BenchmarkList(b *testing.B) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 47<<16)
	for _, piece := range []int{len(body), 64 << 10} {
		for _, s := range servers {
			b.Run(fmt.Sprintf("piece=%d/%s", piece, s.name), func(b *testing.B) {
				url := s.start(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					for rest := body; len(rest) > 0; {
						n, err := w.Write(rest[:min(len(rest), piece)])
						if err != nil {
							return
						}
						rest = rest[n:]
					}
				}))
				p := startPeer(b)
				p.do("connect 1")
				p.do("get %s 1", url)
				b.SetBytes(int64(len(body)))
				m, n := startMeter(), 0
				for b.Loop() {
					p.do("get %s 1", url)
					n++
				}
				m.report(b, n, "list")
			})
		}
	}
}

// event is as long as a watch event of a pod in BASELINE.
var event = bytes.Repeat([]byte("event of a pod; "), 300)

// BenchmarkFanOut: a ready event goes to 1,000 connections, at 10 a second or as fast as they take it. With net/http, each
// watcher has a goroutine; here two workers serve them all.
func BenchmarkFanOut(b *testing.B) {
	const watchers = 1000
	for _, rate := range []int{10, 0} {
		name := "saturated"
		if rate > 0 {
			name = fmt.Sprintf("rate=%d", rate)
		}
		for i, s := range servers {
			b.Run(name+"/"+s.name, func(b *testing.B) {
				var hub fan = &goroutines{next: make(chan struct{})}
				if i == 1 {
					hub = newWorkers(2)
				}
				defer hub.stop()
				url := s.start(b, hub)
				p := startPeer(b)
				p.do("connect %d", watchers)
				p.do("watch %s", url)
				hub.deliver(watchers)
				time.Sleep(time.Second) // the handshakes' garbage
				runtime.GC()
				m, n := startMeter(), 0
				next := time.Now()
				for b.Loop() {
					if rate > 0 {
						next = next.Add(time.Second / time.Duration(rate))
						time.Sleep(time.Until(next))
					}
					hub.deliver(watchers)
					n += watchers
				}
				m.report(b, n, "delivery")
			})
		}
	}
}

// fan serves watch requests and delivers events to them.
type fan interface {
	http.Handler
	deliver(watchers int) // one event to all; returns when all have taken it
	stop()
}

// goroutines is the fan with a goroutine for each watcher.
type goroutines struct {
	mu   sync.Mutex
	next chan struct{} // closed when there is a new event
	done sync.WaitGroup
}

func (g *goroutines) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	next := g.wait() // before the client can know that it watches
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	for {
		select {
		case <-next:
		case <-r.Context().Done():
			return
		}
		_, _ = w.Write(event)
		w.(http.Flusher).Flush()
		next = g.wait() // before deliver can go on
		g.done.Done()
	}
}

func (g *goroutines) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.next
}

func (g *goroutines) deliver(watchers int) {
	g.done.Wait()
	g.done.Add(watchers)
	g.mu.Lock()
	close(g.next)
	g.next = make(chan struct{})
	g.mu.Unlock()
	g.done.Wait()
}

func (g *goroutines) stop() {}

// workers is the fan with a few workers.
type workers struct {
	mu      sync.Mutex
	streams []*watcher
	ready   chan []*watcher
	done    sync.WaitGroup
}

type watcher struct {
	*Stream
	left int // of the event
}

func newWorkers(n int) *workers {
	w := &workers{ready: make(chan []*watcher, 100_000)}
	for range n {
		go w.work()
	}
	return w
}

func (w *workers) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	s, _, err := Detach(rw)
	if err != nil {
		return
	}
	w.mu.Lock()
	w.streams = append(w.streams, &watcher{Stream: s})
	w.mu.Unlock()
}

func (w *workers) work() {
	for batch := range w.ready {
		for _, s := range batch {
			n, err := s.TryWrite(event[len(event)-s.left:])
			if s.left -= n; s.left == 0 || err != nil {
				w.done.Done()
				continue
			}
			s.OnWritable(func() { w.ready <- []*watcher{s} })
		}
	}
}

func (w *workers) deliver(watchers int) {
	for {
		w.mu.Lock()
		n := len(w.streams)
		w.mu.Unlock()
		if n >= watchers {
			break
		}
		time.Sleep(time.Millisecond)
	}
	w.done.Add(watchers)
	for _, s := range w.streams {
		s.left = len(event)
	}
	const batch = 50
	for i := 0; i < watchers; i += batch {
		w.ready <- w.streams[i:min(watchers, i+batch)]
	}
	w.done.Wait()
}

func (w *workers) stop() { close(w.ready) }

// BenchmarkIdle: what a connection with one open, silent stream costs in memory.
func BenchmarkIdle(b *testing.B) {
	const watchers = 2000
	for i, s := range servers {
		b.Run(s.name, func(b *testing.B) {
			for b.Loop() {
				var hub fan = &goroutines{next: make(chan struct{})}
				if i == 1 {
					hub = newWorkers(2)
				}
				url := s.start(b, hub)
				p := startPeer(b)
				before, rss := memory(), resident(b)
				p.do("connect %d", watchers)
				p.do("watch %s", url)
				hub.deliver(watchers)
				after, rssAfter := memory(), resident(b)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/watchers, "heap-B/watcher")
				b.ReportMetric(float64(after.StackInuse-before.StackInuse)/watchers, "stack-B/watcher")
				b.ReportMetric(float64(rssAfter-rss)/watchers, "rss-B/watcher")
				hub.stop()
			}
		})
	}
}

func memory() (m runtime.MemStats) {
	for range 4 { // stacks shrink by half each time
		debug.FreeOSMemory()
	}
	runtime.ReadMemStats(&m)
	return m
}

// resident returns the process's resident memory in bytes.
func resident(b *testing.B) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return kb << 10
}
