package apiserver_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// TestInformers runs client-go's informers, unchanged, in every form that they speak.
func TestInformers(t *testing.T) {
	s, _, k := start(t)
	namespace(t, k, "a")
	configMap(t, k, "a", "before")

	typed := func(contentType string) func(*rest.Config) cache.SharedIndexInformer {
		return func(config *rest.Config) cache.SharedIndexInformer {
			config.ContentType, config.AcceptContentTypes = contentType, contentType
			return informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0).Core().V1().ConfigMaps().Informer()
		}
	}
	for name, build := range map[string]func(*rest.Config) cache.SharedIndexInformer{
		"json":     typed("application/json"),
		"protobuf": typed("application/vnd.kubernetes.protobuf"),
		"dynamic": func(config *rest.Config) cache.SharedIndexInformer {
			return dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0).ForResource(configMaps).Informer()
		},
		"metadata": func(config *rest.Config) cache.SharedIndexInformer {
			return metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(config), 0).ForResource(configMaps).Informer()
		},
	} {
		t.Run(name, func(t *testing.T) {
			informer := build(s.Admin())
			events := newRecorder()
			if _, err := informer.AddEventHandler(events); err != nil {
				t.Fatal(err)
			}
			var running sync.WaitGroup
			stop := untilEnd(t, &running)
			running.Go(func() { informer.Run(stop) })
			events.wait(t, "add a/before")
			object := "c-" + name
			configMap(t, k, "a", object)
			relabel(t, k, "a", object, "x=y")
			remove(t, k, "a", object)
			events.wait(t, "add a/"+object, "update a/"+object, "delete a/"+object)
		})
	}
}

// untilEnd returns a channel that is closed when the test ends, which then waits for what is running.
func untilEnd(t *testing.T, running *sync.WaitGroup) <-chan struct{} {
	stop := make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		running.Wait()
	})
	return stop
}

// recorder notes what an informer's handlers are told.
type recorder struct{ events chan string }

func newRecorder() *recorder { return &recorder{make(chan string, 1000)} }

func (r *recorder) note(what string, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	m := obj.(metav1.Object)
	r.events <- fmt.Sprintf("%s %s/%s", what, m.GetNamespace(), m.GetName())
}

func (r *recorder) OnAdd(obj any, _ bool) { r.note("add", obj) }
func (r *recorder) OnUpdate(_, obj any)   { r.note("update", obj) }
func (r *recorder) OnDelete(obj any)      { r.note("delete", obj) }

// wait reads events until it has seen the wanted ones, in their order.
func (r *recorder) wait(t *testing.T, want ...string) {
	t.Helper()
	deadline := time.After(timeout)
	for len(want) > 0 {
		select {
		case e := <-r.events:
			if e == want[0] {
				want = want[1:]
			}
		case <-deadline:
			t.Fatalf("did not see %q", want)
		}
	}
}

// TestDynamicClient writes and reads objects without types.
func TestDynamicClient(t *testing.T) {
	s, _, k := start(t)
	namespace(t, k, "a")
	c := dynamic.NewForConfigOrDie(s.Admin()).Resource(configMaps).Namespace("a")
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c1"}, "data": map[string]any{"k": "v"},
	}}
	made, err := c.Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].GetUID() != made.GetUID() {
		t.Errorf("got %v", list)
	}
	w, err := c.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := c.Delete(t.Context(), "c1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := <-w.ResultChan(); e.Type != "DELETED" || e.Object.(*unstructured.Unstructured).GetName() != "c1" {
		t.Errorf("got %v", e)
	}
}

// TestPager reads a list in pages while it changes: the pages are of one snapshot.
func TestPager(t *testing.T) {
	_, _, k := start(t)
	namespace(t, k, "a")
	for i := range 7 {
		configMap(t, k, "a", fmt.Sprintf("c%d", i))
	}
	var names []string
	opts := metav1.ListOptions{Limit: 3}
	for {
		page, err := k.CoreV1().ConfigMaps("a").List(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, cm := range page.Items {
			names = append(names, cm.Name)
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			break
		}
		configMap(t, k, "a", fmt.Sprintf("late-%d", len(names)))
		remove(t, k, "a", fmt.Sprintf("c%d", 6-len(names)/3))
	}
	if got := fmt.Sprint(names); got != "[c0 c1 c2 c3 c4 c5 c6]" {
		t.Errorf("got %s", got)
	}
}
