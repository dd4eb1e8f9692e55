package test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vigil/internal/eventually"
)

func asStatus(err error, status *apierrors.APIStatus) bool { return errors.As(err, status) }

// encodings are the two ways in which clients may ask for objects.
var encodings = map[string]string{"json": "application/json", "protobuf": "application/vnd.kubernetes.protobuf"}

func withEncoding(config *rest.Config, contentType string) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = contentType
	config.AcceptContentTypes = contentType
	return config
}

// rootCA is a config map that a controller keeps in every namespace; the tests leave it out of account.
const rootCA = "kube-root-ca.crt"

// recorder notes what an informer's handler is told and checks that nothing comes twice or backwards.
type recorder struct {
	mu       sync.Mutex
	versions map[string]uint64 // by name: the newest resource version seen
	state    map[string]string // by name: the data of the last event
	problems []string
}

func newRecorder() *recorder {
	return &recorder{versions: map[string]uint64{}, state: map[string]string{}}
}

func (r *recorder) see(kind string, object *corev1.ConfigMap) {
	if object.Name == rootCA {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	version, err := strconv.ParseUint(object.ResourceVersion, 10, 64)
	if err != nil {
		r.problems = append(r.problems, err.Error())
		return
	}
	_, known := r.state[object.Name]
	switch {
	case version <= r.versions[object.Name]:
		r.problems = append(r.problems, fmt.Sprintf("%s %s at %d after %d", kind, object.Name, version, r.versions[object.Name]))
	case kind == "add" && known:
		r.problems = append(r.problems, fmt.Sprintf("%s added twice", object.Name))
	case kind != "add" && !known:
		r.problems = append(r.problems, fmt.Sprintf("%s %s before it was added", kind, object.Name))
	}
	r.versions[object.Name] = version
	if kind == "delete" {
		delete(r.state, object.Name)
	} else {
		r.state[object.Name] = object.Data["v"]
	}
}

func (r *recorder) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { r.see("add", object.(*corev1.ConfigMap)) },
		UpdateFunc: func(old, object any) {
			if old.(*corev1.ConfigMap).ResourceVersion != object.(*corev1.ConfigMap).ResourceVersion { // else a resync
				r.see("update", object.(*corev1.ConfigMap))
			}
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				r.mu.Lock()
				r.problems = append(r.problems, "missed the deletion of "+tombstone.Key)
				r.mu.Unlock()
				return
			}
			r.see("delete", object.(*corev1.ConfigMap))
		},
	}
}

func (r *recorder) same(want map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.state); diff != "" {
		return fmt.Errorf("state differs (-want +got):\n%s", diff)
	}
	return nil
}

// client-go's informers and controller-runtime's caches, unchanged, follow writes over a kill -9 of the server
// without missing or repeating anything.
func TestInformers_FollowThroughAKill(t *testing.T) {
	p := startCluster(t, "--nodes", "0")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	writer := p.Client().CoreV1().ConfigMaps("default")
	want := map[string]string{}
	change := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			name, value := fmt.Sprintf("c-%d", i%40), strconv.Itoa(i)
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"v": value}}
			var err error
			switch _, there := want[name]; {
			case !there:
				_, err = writer.Create(ctx, object, metav1.CreateOptions{})
				want[name] = value
			case i%7 == 0:
				err = writer.Delete(ctx, name, metav1.DeleteOptions{})
				delete(want, name)
			default:
				_, err = writer.Update(ctx, object, metav1.UpdateOptions{})
				want[name] = value
			}
			if err != nil {
				t.Fatalf("change %d: %v", i, err)
			}
		}
	}
	change(0, 100)

	recorders := map[string]*recorder{}
	for name, contentType := range encodings {
		config := withEncoding(p.Config(), contentType)
		clientset, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		plain := newRecorder()
		recorders["client-go "+name] = plain
		factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace("default"))
		informer := factory.Core().V1().ConfigMaps().Informer()
		if _, err := informer.AddEventHandler(plain.handler()); err != nil {
			t.Fatal(err)
		}
		factory.Start(ctx.Done())

		runtime := newRecorder()
		recorders["controller-runtime "+name] = runtime
		objects, err := ctrlcache.New(config, ctrlcache.Options{DefaultNamespaces: map[string]ctrlcache.Config{"default": {}}})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := objects.Start(ctx); err != nil {
				t.Errorf("controller-runtime cache: %v", err)
			}
		})
		defer wg.Wait()
		defer cancel()
		watched, err := objects.GetInformer(ctx, &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := watched.AddEventHandler(runtime.handler()); err != nil {
			t.Fatal(err)
		}
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) || !objects.WaitForCacheSync(ctx) {
			t.Fatalf("%s: no sync", name)
		}
		var read corev1.ConfigMapList
		if err := objects.List(ctx, &read, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		found := slices.DeleteFunc(read.Items, func(c corev1.ConfigMap) bool { return c.Name == rootCA })
		if len(found) != len(want) {
			t.Errorf("%s: the controller-runtime cache lists %d objects, want %d", name, len(found), len(want))
		}
	}
	everybodySees := func(when string) {
		t.Helper()
		for name, r := range recorders {
			eventually.Nil(t, name+" "+when, func() error { return r.same(want) })
		}
	}
	everybodySees("after the first sync")
	change(100, 300)
	everybodySees("while following")
	p.Kill()
	p.Up()
	writer = p.Client().CoreV1().ConfigMaps("default")
	before := maps.Clone(want)
	change(300, 500)
	everybodySees("after the kill")
	if maps.Equal(before, want) {
		t.Fatal("the test changed nothing after the kill")
	}
	for name, r := range recorders {
		for _, problem := range r.problems {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// A plain watch that notes its last version resumes there, after the server was killed, at exactly the next change.
func TestWatch_ResumesAtTheNextChange(t *testing.T) {
	p := startCluster(t, "--nodes", "0")
	ctx := context.Background()
	create := func(name string) string {
		t.Helper()
		made, err := p.Client().CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return made.ResourceVersion
	}
	seen := create("a")
	p.Kill()
	p.Up()
	wantVersions := []string{create("b"), create("c")}
	limited, cancel := context.WithTimeout(ctx, eventually.Limit)
	defer cancel()
	stream, err := p.Client().CoreV1().Secrets("default").Watch(limited, metav1.ListOptions{ResourceVersion: seen})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	for _, want := range wantVersions {
		select {
		case event := <-stream.ResultChan():
			object, ok := event.Object.(*corev1.Secret)
			if !ok || object.ResourceVersion != want {
				t.Fatalf("got %v %+v, want version %s", event.Type, event.Object, want)
			}
		case <-time.After(eventually.Limit):
			t.Fatalf("no event for version %s", want)
		}
	}
}
