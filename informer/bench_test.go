package informer

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"vigil/informer/internal/fakeapi"
)

// The benchmarks compare this package with client-go's shared informer in one run: the same bytes (pods of 3.3 KB in
// protobuf, as a streaming list followed by updates) come out of the same http.RoundTripper, without a server or TLS, and go to a
// handler that only puts names into a set. "cpu-us/event" is the CPU time of the whole process, garbage collection included.
//
//	go test -run '^$' -bench 'Sync|Events' ./informer

//go:embed testdata/pod.json
var podJSON []byte

// wirePods are pods ready to be sent.
type wirePods struct {
	initial []byte   // ADDED for every pod and the bookmark
	updates [][]byte // a MODIFIED frame for each of some pods; sent over and over, each time with another version
}

// firstVersion is the version of the first update. All versions of updates have its eight digits.
const firstVersion = 10_000_000

func makeWirePods(n, updates int) *wirePods {
	var tmpl corev1.Pod
	if err := json.Unmarshal(compact(podJSON), &tmpl); err != nil {
		panic(err)
	}
	make := func(i, version int) *corev1.Pod {
		p := tmpl.DeepCopy()
		p.Namespace = "ns-" + strconv.Itoa(i%10)
		p.Name = fmt.Sprintf("web-frontend-7d4b9c6f58-%06d", i)
		p.UID = types.UID(fmt.Sprintf("0f0e7d5c-2c1b-4c57-9a55-%012d", i))
		p.Spec.NodeName = "node-" + strconv.Itoa(i%1000)
		p.ResourceVersion = strconv.Itoa(version)
		return p
	}
	w := &wirePods{}
	var buf bytes.Buffer
	for i := range n {
		buf.Write(fakeapi.Frame("ADDED", make(i, 1000+i), true))
	}
	end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(1000 + n), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	buf.Write(fakeapi.Frame("BOOKMARK", end, true))
	w.initial = buf.Bytes()
	for i := range updates {
		w.updates = append(w.updates, fakeapi.Frame("MODIFIED", make(i*7919%n, firstVersion), true))
	}
	return w
}

func compact(b []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// source is a RoundTripper that answers a watch with the pods, then with as many updates as are asked for, then waits.
type source struct {
	pods *wirePods
	want chan int // how many updates to send
}

func (s *source) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("sendInitialEvents") == "" {
		return nil, fmt.Errorf("not expected: %s", r.URL)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {mediaProto + ";stream=watch"}},
		Body:   &body{s: s, ctx: r.Context(), rest: s.pods.initial},
	}, nil
}

type body struct {
	s    *source
	ctx  context.Context
	rest []byte
	left int // updates to come
	next int

	frame []byte // the update being sent
}

// update puts the next update into rest.
func (b *body) update() {
	b.left--
	b.frame = append(b.frame[:0], b.s.pods.updates[b.next%len(b.s.pods.updates)]...)
	at := bytes.LastIndex(b.frame[:400], []byte(strconv.Itoa(firstVersion)))
	strconv.AppendInt(b.frame[:at], int64(firstVersion+b.next), 10)
	b.rest = b.frame
	b.next++
}

// Read gives at most one TLS record's worth.
func (b *body) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.left == 0 {
			select {
			case b.left = <-b.s.want:
			case <-b.ctx.Done():
				return 0, io.EOF
			}
			continue
		}
		b.update()
	}
	n := copy(p[:min(len(p), 16<<10)], b.rest)
	b.rest = b.rest[n:]
	for n < len(p) && n < 16<<10 && len(b.rest) == 0 && b.left > 0 {
		b.update()
		m := copy(p[n:min(len(p), 16<<10)], b.rest)
		b.rest = b.rest[m:]
		n += m
	}
	return n, nil
}

func (b *body) Close() error { return nil }

// names is what the handlers put names into.
type names struct {
	mu  sync.Mutex
	set map[types.NamespacedName]struct{}
	n   atomic.Int64
}

func (q *names) add(k types.NamespacedName) {
	q.mu.Lock()
	if len(q.set) > 1000 {
		clear(q.set)
	}
	q.set[k] = struct{}{}
	q.mu.Unlock()
	q.n.Add(1)
}

// follower is one of the two implementations, running. told is how many changes its handler has been told of, those that
// were merged included.
type follower struct {
	told func() int
	stop func()
	keep any
}

func startVigil(tb testing.TB, src *source, handlers int, adjust func(*Resource)) follower {
	f, err := NewFactory(&rest.Config{Host: "http://source", Transport: src}, Config{})
	if err != nil {
		tb.Fatal(err)
	}
	res := podResource
	if adjust != nil {
		adjust(&res)
	}
	i := f.Informer(res)
	q := &names{set: map[types.NamespacedName]struct{}{}}
	regs := make([]*Registration, handlers)
	for n := range regs {
		regs[n] = i.AddHandler(Keys(q.add))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = f.Run(ctx) }()
	return follower{
		told: func() int {
			n := int(q.n.Load())
			for _, r := range regs {
				n += int(r.Merged())
			}
			return n
		},
		stop: func() { cancel(); <-done },
		keep: f,
	}
}

func startClientGo(tb testing.TB, src *source, handlers int) follower {
	cs, err := kubernetes.NewForConfigAndClient(&rest.Config{
		Host:          "http://source",
		ContentConfig: rest.ContentConfig{AcceptContentTypes: mediaProto + "," + mediaJSON, ContentType: mediaProto},
	}, &http.Client{Transport: src})
	if err != nil {
		tb.Fatal(err)
	}
	f := informers.NewSharedInformerFactory(cs, 0)
	inf := f.Core().V1().Pods().Informer()
	q := &names{set: map[types.NamespacedName]struct{}{}}
	add := func(obj any) {
		p := obj.(*corev1.Pod)
		q.add(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
	for range handlers {
		if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }}); err != nil {
			tb.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.StartWithContext(ctx)
	return follower{
		told: func() int { return int(q.n.Load()) },
		stop: func() { cancel(); f.Shutdown() },
		keep: f,
	}
}

func (f follower) waitFor(tb testing.TB, n int) {
	deadline := time.Now().Add(time.Minute)
	for f.told() < n {
		if time.Now().After(deadline) {
			tb.Fatalf("told of %d of %d changes in a minute", f.told(), n)
		}
		time.Sleep(200 * time.Microsecond)
	}
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

var implementations = []struct {
	name  string
	start func(tb testing.TB, s *source, handlers int) follower
}{
	{"vigil", func(tb testing.TB, s *source, handlers int) follower { return startVigil(tb, s, handlers, nil) }},
	{"vigil-without-managedFields", func(tb testing.TB, s *source, handlers int) follower {
		return startVigil(tb, s, handlers, func(r *Resource) { r.DropManagedFields = true })
	}},
	{"client-go", startClientGo},
	{"source-alone", func(tb testing.TB, s *source, handlers int) follower { return startNothing(tb, s, handlers) }},
}

// startNothing reads the stream and counts its frames: what the source costs in itself.
func startNothing(tb testing.TB, src *source, handlers int) follower {
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://source/?sendInitialEvents=true", nil)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := src.RoundTrip(req)
	if err != nil {
		tb.Fatal(err)
	}
	var n atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := bufio.NewReaderSize(resp.Body, 32<<10)
		var size [4]byte
		for {
			if _, err := io.ReadFull(r, size[:]); err != nil {
				return
			}
			if _, err := r.Discard(int(binary.BigEndian.Uint32(size[:]))); err != nil {
				return
			}
			n.Add(1)
		}
	}()
	return follower{told: func() int { return handlers * int(n.Load()) }, stop: func() { cancel(); <-done }}
}

// BenchmarkSync takes in a streaming list of 50,000 pods.
func BenchmarkSync(b *testing.B) {
	const n = 50_000
	pods := makeWirePods(n, 1)
	for _, im := range implementations {
		b.Run(im.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(pods.initial)))
			var cpu time.Duration
			var size float64
			rounds := 0
			for b.Loop() {
				b.StopTimer()
				before := heap()
				start := cpuTime()
				b.StartTimer()
				f := im.start(b, &source{pods: pods, want: make(chan int)}, 1)
				f.waitFor(b, n)
				b.StopTimer()
				cpu += cpuTime() - start
				size += heap() - before
				rounds++
				f.stop()
				runtime.KeepAlive(f.keep)
				b.StartTimer()
			}
			b.ReportMetric(float64(cpu.Microseconds())/float64(rounds*n), "cpu-us/object")
			b.ReportMetric(size/float64(rounds*n), "heap-B/object")
		})
	}
}

// BenchmarkEvents takes in updates of some of the pods, one after another, for different numbers of pods and handlers.
func BenchmarkEvents(b *testing.B) {
	for _, size := range []struct{ pods, handlers int }{{5_000, 1}, {50_000, 1}, {50_000, 10}} {
		pods := makeWirePods(size.pods, min(size.pods, 10_000))
		for _, im := range implementations {
			b.Run(fmt.Sprintf("pods=%d/handlers=%d/%s", size.pods, size.handlers, im.name), func(b *testing.B) {
				src := &source{pods: pods, want: make(chan int)}
				f := im.start(b, src, size.handlers)
				defer f.stop()
				f.waitFor(b, size.pods*size.handlers)
				runtime.GC()
				b.ReportAllocs()
				b.SetBytes(int64(len(pods.updates[0])))
				start := cpuTime()
				b.ResetTimer()
				src.want <- b.N
				f.waitFor(b, (size.pods+b.N)*size.handlers)
				b.ReportMetric(float64((cpuTime()-start).Nanoseconds())/1e3/float64(b.N), "cpu-us/event")
			})
		}
	}
}
