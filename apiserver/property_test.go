package apiserver_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/object"
	"vigil/store/storetest"
	"vigil/watchcache"
	"vigil/watchcache/cachetest"
)

var (
	propertySeed   = flag.Uint64("property.seed", 0, "seed of the first round of TestProperty; 0 picks one")
	propertyRounds = flag.Int("property.rounds", 1, "rounds of TestProperty, each with the next seed")
	propertyWrites = flag.Int("property.writes", 1000, "writes in each round of TestProperty")
)

// Over the wire, too, every stream and every list is the filtered history: JSON and protobuf, HTTP/1.1 and HTTP/2, whatever
// happens to the connections, the server and etcd's history.
func TestProperty(t *testing.T) {
	seed := *propertySeed
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	for i := range *propertyRounds {
		seed := seed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Logf("-property.seed=%d -property.rounds=1", seed)
			rnd := rand.New(rand.NewPCG(seed, 0))
			target := newWireTarget(t, []int{100, 100000}[rnd.IntN(2)])
			stats := cachetest.Run(t, target, cachetest.Options{
				Seed:     seed,
				Writes:   *propertyWrites,
				Writers:  4,
				Watchers: 24,
				Readers:  3,
				Mishaps:  []func(context.Context) error{target.restart, target.compact, target.cut},
			})
			t.Log(stats)
			if stats.Writes < int64(*propertyWrites)/4*4 || stats.Events == 0 || stats.Mishaps < 3 || stats.Reconnects == 0 || stats.Lists == 0 {
				t.Errorf("not enough has been checked: %v", stats)
			}
		})
	}
}

// pace is how long each write takes at least: an etcd that does not sync to disk would outrun all readers.
const pace = 8 * time.Millisecond

// wireTarget is a whole API server on a real etcd. Writes go to etcd directly, as another API server's would: pods may change
// what the API does not let them.
type wireTarget struct {
	t       testing.TB
	etcd    storetest.Target
	window  int
	podType *object.Type // the first server's: types are the same for all

	mu      sync.RWMutex // held for writing while the server is replaced
	server  *apiservertest.Server
	clients []*kubernetes.Clientset // one for each encoding and protocol
	cutNow  func()                  // breaks about half of the clients' connections
}

func newWireTarget(t testing.TB, window int) *wireTarget {
	w := &wireTarget{t: t, etcd: storetest.NewTarget(t), window: window}
	w.start()
	for _, k := range w.server.Table.All() {
		if k.GroupResource().String() == "pods" {
			w.podType = k.Type
		}
	}
	return w
}

// start puts a new server in the place of the one before. mu is held, or nobody else has w.
func (w *wireTarget) start() {
	w.server = apiservertest.Start(w.t, func(c *apiserver.Config) {
		c.Store = w.etcd.Store
		c.Window = watchcache.Window{MaxEvents: w.window}
	})
	w.clients = nil
	var mu sync.Mutex
	conns := map[net.Conn]struct{}{}
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		for _, protocol := range []string{"h2", "http/1.1"} {
			config := w.server.Admin()
			config.ContentType, config.AcceptContentTypes = contentType, contentType
			config.NextProtos = []string{protocol}
			config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				if err == nil {
					mu.Lock()
					conns[conn] = struct{}{}
					mu.Unlock()
				}
				return conn, err
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				w.t.Fatal(err)
			}
			w.clients = append(w.clients, client)
		}
	}
	w.cutNow = func() {
		mu.Lock()
		defer mu.Unlock()
		for conn := range conns {
			if rand.IntN(2) == 0 {
				conn.Close()
				delete(conns, conn)
			}
		}
	}
}

// restart replaces the server: what it had in memory is gone.
func (w *wireTarget) restart(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.server.Stop(); err != nil {
		return err
	}
	w.start()
	return nil
}

// cut breaks about half of the connections.
func (w *wireTarget) cut(context.Context) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	w.cutNow()
	return nil
}

func (w *wireTarget) compact(ctx context.Context) error {
	rev, err := w.etcd.Store.Revision(ctx)
	if err != nil {
		return err
	}
	_, err = w.etcd.Etcd.Client().Compact(ctx, max(1, rev-rand.Int64N(30)))
	if err != nil && strings.Contains(err.Error(), "has been compacted") {
		return nil
	}
	return err
}

func (w *wireTarget) client() *kubernetes.Clientset {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.clients[rand.IntN(len(w.clients))]
}

func (w *wireTarget) Write(ctx context.Context, o cachetest.Object, rev int64) (int64, error) {
	time.Sleep(pace)
	key := w.etcd.Store.Prefix() + "pods/" + o.Key()
	if rev < 0 {
		return w.etcd.Store.Delete(ctx, key, -rev)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: o.Node}}
	pod.Namespace, pod.Name = o.Namespace, o.Name
	pod.Annotations = map[string]string{"serial": strconv.Itoa(o.Serial)}
	if o.App != "" {
		pod.Labels = map[string]string{"app": o.App}
	}
	value, err := object.EncodeStored(w.podType, pod)
	if err != nil {
		return 0, err
	}
	if rev == 0 {
		return w.etcd.Store.Create(ctx, key, value, 0)
	}
	return w.etcd.Store.Update(ctx, key, value, rev, 0)
}

func (w *wireTarget) List(ctx context.Context, s cachetest.Selector, rev int64, limit int) (int64, []cachetest.Item, error) {
	options := metav1.ListOptions{LabelSelector: s.Labels, FieldSelector: s.Fields, Limit: int64(limit)}
	if rev > 0 {
		options.ResourceVersion, options.ResourceVersionMatch = strconv.FormatInt(rev, 10), metav1.ResourceVersionMatchExact
	}
	var items []cachetest.Item
	for client := w.client(); ; {
		list, err := client.CoreV1().Pods(s.Namespace).List(ctx, options)
		if err != nil {
			return 0, nil, wireError(err)
		}
		for i := range list.Items {
			item, err := seenPod(&list.Items[i])
			if err != nil {
				return 0, nil, err
			}
			items = append(items, item)
		}
		if list.Continue == "" {
			revision, err := strconv.ParseInt(list.ResourceVersion, 10, 64)
			return revision, items, err
		}
		options = metav1.ListOptions{LabelSelector: s.Labels, FieldSelector: s.Fields, Limit: int64(limit), Continue: list.Continue}
	}
}

func (w *wireTarget) Watch(ctx context.Context, s cachetest.Selector, after int64) (cachetest.Stream, error) {
	// On the wire 0 asks for any state; all writes came after revision 1.
	options := metav1.ListOptions{LabelSelector: s.Labels, FieldSelector: s.Fields, ResourceVersion: strconv.FormatInt(max(1, after), 10), AllowWatchBookmarks: true}
	if after < 0 {
		yes := true
		options.ResourceVersion, options.SendInitialEvents, options.ResourceVersionMatch = "", &yes, metav1.ResourceVersionMatchNotOlderThan
	}
	stream, err := w.client().CoreV1().Pods(s.Namespace).Watch(ctx, options)
	if err != nil {
		return nil, wireError(err)
	}
	return &wireStream{stream}, nil
}

type wireStream struct{ watch.Interface }

var errStreamEnded = errors.New("the stream has ended")

func (s *wireStream) Next(ctx context.Context) (cachetest.Event, error) {
	select {
	case <-ctx.Done():
		return cachetest.Event{}, ctx.Err()
	case event, ok := <-s.ResultChan():
		if !ok {
			return cachetest.Event{}, errStreamEnded
		}
		if event.Type == watch.Error {
			return cachetest.Event{}, wireError(apierrors.FromObject(event.Object))
		}
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return cachetest.Event{}, fmt.Errorf("got a %T", event.Object)
		}
		if event.Type == watch.Bookmark {
			rev, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
			return cachetest.Event{Type: "BOOKMARK", Rev: rev, InitialEnd: pod.Annotations[metav1.InitialEventsAnnotationKey] == "true"}, err
		}
		item, err := seenPod(pod)
		return cachetest.Event{Type: string(event.Type), Rev: item.Rev, Object: item.Object}, err
	}
}

func (s *wireStream) Pending() bool { return false }
func (s *wireStream) Close()        { s.Stop() }

func seenPod(pod *corev1.Pod) (cachetest.Item, error) {
	item := cachetest.Item{Object: cachetest.Object{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, App: pod.Labels["app"]}}
	var err error
	if item.Object.Serial, err = strconv.Atoi(pod.Annotations["serial"]); err != nil {
		return item, err
	}
	item.Rev, err = strconv.ParseInt(pod.ResourceVersion, 10, 64)
	return item, err
}

func wireError(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return cachetest.ErrExpired
	}
	return err
}
