// Command informer measures what an informer costs: the time and CPU to sync N
// pods, the CPU for each event on its way to a handler that only queues keys,
// and the heap for each object. --impl says whose: client-go's shared informer
// or Vigil's. Both read the same bytes from the same in-memory transport, so no
// server and no network is measured, and each runs in a process of its own.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"vigil/informer"
)

func main() {
	impl := flag.String("impl", "vigil", "vigil or client-go")
	pods := flag.Int("pods", 50000, "pods")
	events := flag.Int("events", 200000, "events after the sync")
	template := flag.String("template", "", "file with a pod as stored in etcd")
	klog.InitFlags(nil)
	flag.Parse()
	if err := run(*impl, *pods, *events, *template); err != nil {
		fmt.Fprintln(os.Stderr, "informer:", err)
		os.Exit(1)
	}
}

// watched is what is measured: something that lists and watches pods and calls queue with the key of each that changed.
type watched interface {
	// start begins and returns when the state is complete.
	start(ctx context.Context, queue func(key string)) error
}

func run(impl string, pods, events int, template string) error {
	src, err := newSource(template, pods)
	if err != nil {
		return err
	}
	config := &rest.Config{Host: "http://source.invalid", Transport: src, QPS: -1}
	config.ContentType, config.AcceptContentTypes = protobuf, protobuf+",application/json"
	var w watched
	switch impl {
	case "client-go":
		w = &clientGo{config: config}
	case "vigil":
		w = &own{config: config}
	default:
		return fmt.Errorf("no informer %q", impl)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	queue := workqueue.NewTyped[string]()
	defer queue.ShutDown()
	var told atomic.Int64 // calls of the handler
	var armed atomic.Bool // the next time that the sentinel is told of is the end
	done := make(chan struct{})
	go func() {
		for {
			key, over := queue.Get()
			if over {
				return
			}
			if key == src.sentinel && armed.CompareAndSwap(true, false) {
				close(done)
			}
			queue.Done(key)
		}
	}()

	heap0 := heap()
	begin, cpu0 := time.Now(), cpu()
	if err := w.start(ctx, func(key string) { told.Add(1); queue.Add(key) }); err != nil {
		return err
	}
	for told.Load() < int64(pods) || queue.Len() > 0 {
		time.Sleep(time.Millisecond)
	}
	wall, used := time.Since(begin).Seconds(), cpu()-cpu0
	report(map[string]any{"scenario": "informer-sync", "objects": pods, "sync_s": wall, "objects_s": float64(pods) / wall, "cpu_s": used,
		"heap_bytes_per_object": (heap() - heap0) / float64(pods)})

	armed.Store(true)
	begin, cpu0 = time.Now(), cpu()
	src.send <- events
	<-done
	wall, used = time.Since(begin).Seconds(), cpu()-cpu0
	report(map[string]any{"scenario": "informer-events", "events": events, "event_bytes": src.eventBytes(), "events_s": float64(events) / wall,
		"cpu_us_per_event": used / float64(events) * 1e6, "max_rss_mb": maxRSS()})
	runtime.KeepAlive(w)
	return nil
}

// clientGo is client-go's shared informer with its usual namespace index.
type clientGo struct {
	config   *rest.Config
	informer cache.SharedIndexInformer
}

func (c *clientGo) start(ctx context.Context, queue func(string)) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	c.informer = factory.Core().V1().Pods().Informer()
	add := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			queue(key)
		}
	}
	if _, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: add}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced) {
		return ctx.Err()
	}
	return nil
}

// own is Vigil's informer with the same index.
type own struct {
	config  *rest.Config
	factory *informer.Factory
}

func (o *own) start(ctx context.Context, queue func(string)) error {
	factory, err := informer.NewFactory(o.config, informer.Config{})
	if err != nil {
		return err
	}
	o.factory = factory
	inf := factory.Informer(informer.ResourceOf[*corev1.Pod]())
	inf.AddHandler(informer.Keys(func(n types.NamespacedName) { queue(n.String()) }))
	go func() { _ = factory.Run(ctx) }()
	return inf.WaitForSync(ctx)
}

func report(figures map[string]any) {
	line, _ := json.Marshal(figures)
	fmt.Println(string(line))
	fmt.Fprintln(os.Stderr, "#", strings.Trim(string(line), "{}"))
}

// heap is what is alive, in bytes.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func usage() (r syscall.Rusage) { _ = syscall.Getrusage(syscall.RUSAGE_SELF, &r); return r }

// cpu is what this process has used, in seconds.
func cpu() float64 {
	r := usage()
	return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
}

func maxRSS() float64 { return float64(usage().Maxrss) / 1024 }
