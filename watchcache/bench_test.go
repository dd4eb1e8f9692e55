package watchcache

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"vigil/object"
	"vigil/store"
)

const benchNodes = 5000

// benchPod is the stored form of a pod of 3.3 KB, one of 100 with app=rare. nodeName decides the node.
func benchPod(b testing.TB, i int, node string) (key string, stored []byte) {
	obj := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}}
	obj.Namespace, obj.Name = fmt.Sprintf("ns-%03d", i%100), fmt.Sprintf("deployment-7d9c5b8f6c-%05d", i)
	obj.Labels = map[string]string{"app": "common", "pod-template-hash": "7d9c5b8f6c", "tier": "backend"}
	if i%100 == 0 {
		obj.Labels["app"] = "rare"
	}
	obj.Annotations = map[string]string{"padding": strings.Repeat("0123456789abcdef", 190)}
	obj.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example.com/app:v1"}}
	stored, err := object.EncodeStored(podType, obj)
	if err != nil {
		b.Fatal(err)
	}
	return pods.Prefix + obj.Namespace + "/" + obj.Name, stored
}

func benchNode(i int) string { return fmt.Sprintf("node-%04d", i%benchNodes) }

// benchRig is a rig loaded with n pods.
func benchRig(b testing.TB, n int, opts ...rigOption) *rig {
	r := newRig(b, opts...)
	var all []item
	for i := range n {
		key, stored := benchPod(b, i, benchNode(i))
		r.rev++
		v, err := object.NewVersion(podType, key, r.rev, stored)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, item{v, r.server.digester.of(v)})
	}
	slices.SortFunc(all, func(a, b item) int { return strings.Compare(a.Key(), b.Key()) })
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.pods.load(buildState(r.rev, all, nil, pods.Indexes))
	r.server.publish(r.rev)
	return r
}

// BenchmarkEvent is one update of one of 10,000 pods on its way in, and to whom it concerns: every watcher takes its
// event and waits again. What it costs to write the event to a connection is not in it.
func BenchmarkEvent(b *testing.B) {
	for _, kind := range []string{"all", "node", "label"} {
		for _, watchers := range []int{0, 1000, 5000, 50000} {
			if watchers == 0 && kind != "all" {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", kind, watchers), func(b *testing.B) { benchEvent(b, kind, watchers) })
		}
	}
}

func benchEvent(b *testing.B, kind string, watchers int) {
	const objects = 10000
	r := benchRig(b, objects)
	type watcher struct {
		*Cursor
		notify func()
	}
	var woken, idle []*watcher
	for i := range watchers {
		sel := Selection{}
		switch kind {
		case "node":
			sel.Fields = fields.OneTermEqualSelector("spec.nodeName", benchNode(i))
		case "label":
			sel.Labels = labels.SelectorFromSet(labels.Set{"app": "rare"})
		}
		c := &watcher{Cursor: r.watch(WatchOptions{After: r.rev, Selection: sel})}
		c.notify = func() { woken = append(woken, c) }
		c.Notify(c.notify)
	}
	type write struct {
		key    string
		stored []byte
	}
	var writes []write
	for i := range 1000 {
		key, stored := benchPod(b, i*7%objects, benchNode(i*7%objects))
		writes = append(writes, write{key, stored})
	}
	delivered := 0
	reportCPU := cpuTimer(b)
	batch := store.Batch{Events: make([]store.Event, 1)}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		w := writes[i%len(writes)]
		i++
		r.rev++
		batch.Rev, batch.Events[0] = r.rev, store.Event{Key: w.key, ModRev: r.rev, Value: w.stored}
		r.server.apply(batch)
		for _, c := range woken {
			for {
				_, ok, err := c.Next()
				if err != nil {
					b.Fatal(err)
				}
				if !ok {
					break
				}
				delivered++
			}
		}
		woken, idle = idle[:0], woken
		for _, c := range idle {
			c.Notify(c.notify)
		}
	}
	reportCPU()
	b.ReportMetric(float64(delivered)/float64(b.N), "deliveries/op")
}

// cpuTimer returns a function that reports the processor time since, which other load on the machine does not change.
func cpuTimer(b *testing.B) func() {
	now := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := now()
	return func() { b.ReportMetric(float64(now()-start)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkList assembles lists of 10,000 and 50,000 pods, which does not include writing them.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{10000, 50000} {
		r := benchRig(b, n)
		for _, tc := range []struct {
			name  string
			sel   Selection
			limit int
			want  int
		}{
			{"all", Selection{}, 0, n},
			{"page-500", Selection{}, 500, 500},
			{"namespace", Selection{Namespace: "ns-042"}, 0, n / 100},
			{"label-1%", Selection{Labels: labels.SelectorFromSet(labels.Set{"app": "rare"})}, 0, n / 100},
			{"node", Selection{Fields: fields.OneTermEqualSelector("spec.nodeName", "node-0042")}, 0, n / benchNodes},
			{"unindexed-field", Selection{Fields: fields.OneTermEqualSelector("status.phase", "Running")}, 0, 0},
		} {
			b.Run(fmt.Sprintf("%s/%d", tc.name, n), func(b *testing.B) {
				b.ReportAllocs()
				defer cpuTimer(b)()
				for b.Loop() {
					page, err := r.pods.Snapshot().List(tc.sel, "", tc.limit)
					if err != nil || len(page.Items) != tc.want {
						b.Fatal(len(page.Items), err)
					}
				}
			})
		}
	}
}

// BenchmarkWatchStart starts and ends a watch. "resume" begins 100,000 events back, and reads all there are for its node.
func BenchmarkWatchStart(b *testing.B) {
	const objects, events = 10000, 100000
	node := Selection{Fields: fields.OneTermEqualSelector("spec.nodeName", "node-0042")}
	r := benchRig(b, objects, window(Window{MaxEvents: events + 1000, MaxBytes: 1 << 40}))
	start := r.rev
	for i := range events {
		ns, name := fmt.Sprintf("ns-%03d", i%objects%100), fmt.Sprintf("deployment-7d9c5b8f6c-%05d", i%objects)
		r.put(pod{ns + "/" + name, benchNode(i % objects), ""})
	}
	for _, tc := range []struct {
		name string
		o    func() WatchOptions
		want int
	}{
		{"newest", func() WatchOptions { return WatchOptions{After: r.rev} }, 0},
		{"newest-node", func() WatchOptions { return WatchOptions{After: r.rev, Selection: node} }, 0},
		{"initial-node", func() WatchOptions {
			return WatchOptions{Initial: r.pods.Snapshot(), Selection: node, EndBookmark: true}
		}, objects/benchNodes + 1},
		{"initial-all", func() WatchOptions { return WatchOptions{Initial: r.pods.Snapshot(), EndBookmark: true} }, objects + 1},
		{"resume-node", func() WatchOptions { return WatchOptions{After: start, Selection: node} }, events / benchNodes},
		{"resume-all", func() WatchOptions { return WatchOptions{After: start} }, events},
	} {
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			defer cpuTimer(b)()
			for b.Loop() {
				c := r.watch(tc.o())
				n := 0
				for {
					_, ok, err := c.Next()
					if err != nil {
						b.Fatal(err)
					}
					if !ok {
						break
					}
					n++
				}
				c.Close()
				if n != tc.want {
					b.Fatalf("%d events, want %d", n, tc.want)
				}
			}
		})
	}
}

// BenchmarkSnapshotAt reads a page at a revision in the middle of the window.
func BenchmarkSnapshotAt(b *testing.B) {
	r := benchRig(b, 50000)
	for i := range 2000 {
		r.put(pod{fmt.Sprintf("ns-%03d/deployment-7d9c5b8f6c-%05d", i%100, i), benchNode(i), ""})
	}
	b.ReportAllocs()
	defer cpuTimer(b)()
	for i := int64(0); b.Loop(); i++ {
		if _, err := r.pods.SnapshotAt(r.rev - 100 - i*37%1500); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemory is no benchmark of time: it reports the bytes of heap for each of 50,000 loaded pods, for each event
// of 20,000 updates in the window, and for each of 5,000 cursors.
func BenchmarkMemory(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		const objects, events, cursors = 50000, 20000, 5000
		empty := heap()
		r := benchRig(b, objects, window(Window{MaxBytes: 1 << 40}))
		loaded := heap()
		for i := range events {
			key, stored := benchPod(b, i*7919%objects, benchNode(i*7919))
			r.raw(key, stored)
		}
		updated := heap()
		var open []*Cursor
		for i := range cursors {
			open = append(open, r.watch(WatchOptions{After: r.rev, Selection: Selection{Fields: fields.OneTermEqualSelector("spec.nodeName", benchNode(i))}}))
			open[i].Notify(func() {})
		}
		watched := heap()
		b.ReportMetric((loaded-empty)/objects, "B/pod")
		b.ReportMetric((updated-loaded)/events, "B/event")
		b.ReportMetric((watched-updated)/cursors, "B/cursor")
		runtime.KeepAlive(open)
		runtime.KeepAlive(r)
	}
}
