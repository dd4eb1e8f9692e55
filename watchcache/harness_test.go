package watchcache

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/object"
	"vigil/store"
)

var podType = &object.Type{
	APIVersion: "v1",
	Kind:       "Pod",
	Namespaced: true,
	New:        func() runtime.Object { return new(corev1.Pod) },
	Fields: []object.Field{
		{Label: "spec.nodeName", Proto: []int32{2, 10}},
		{Label: "status.phase", Proto: []int32{3, 1}},
	},
}

var pods = Resource{Name: "pods", Prefix: "/registry/pods/", Type: podType, Indexes: []string{"spec.nodeName"}}

// noStore is for tests that feed batches themselves.
type noStore struct{}

var errNoStore = errors.New("this test has no store")

func (noStore) Prefix() string                          { return "/registry/" }
func (noStore) Revision(context.Context) (int64, error) { return 0, errNoStore }
func (noStore) RequestProgress(context.Context) error   { return errNoStore }
func (noStore) List(context.Context, string, store.ListOptions) (store.ListResult, error) {
	return store.ListResult{}, errNoStore
}
func (noStore) LoadAll(context.Context, string, int64, func([]store.KV) error) (int64, error) {
	return 0, errNoStore
}
func (noStore) Feed(context.Context, int64, func(store.Batch) error) error { return errNoStore }

// rig is a server of one cache, loaded empty at revision 100, that the test feeds by hand. The clock is its own.
type rig struct {
	t      testing.TB
	server *Server
	pods   *Cache
	rev    int64
	now    time.Time
}

type rigOption func(*Config, *tuning)

func window(w Window) rigOption   { return func(c *Config, _ *tuning) { c.Window = w } }
func chunkEvents(n int) rigOption { return func(_ *Config, t *tuning) { t.chunkEvents = n } }

func newRig(t testing.TB, opts ...rigOption) *rig {
	r := &rig{t: t, rev: 100, now: time.Unix(1_000_000, 0)}
	cfg, tune := Config{}, defaultTuning
	tune.now = func() time.Time { return r.now }
	for _, o := range opts {
		o(&cfg, &tune)
	}
	r.server = newServer(noStore{}, cfg, tune)
	r.pods = r.server.Add(pods)
	r.reload()
	t.Cleanup(r.check)
	return r
}

// check checks every structure of the server. The tests' steps call it, too.
func (r *rig) check() {
	r.t.Helper()
	if err := r.server.Check(); err != nil {
		r.t.Fatalf("at revision %d: %v", r.rev, err)
	}
}

// reload loads the cache anew, empty, at the current revision.
func (r *rig) reload() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.pods.load(buildState(r.rev, nil, nil, pods.Indexes))
	r.server.past = []moment{{r.now, r.rev}}
	r.server.publish(r.rev)
	r.pods.wake()
}

// pod is what tests say about a pod: "ns/name", its node, and one label app.
type pod struct{ key, node, app string }

func (p pod) stored(t testing.TB, serial int64) []byte {
	obj := &corev1.Pod{Spec: corev1.PodSpec{NodeName: p.node}}
	obj.Annotations = map[string]string{"serial": fmt.Sprint(serial)}
	if p.app != "" {
		obj.Labels = map[string]string{"app": p.app}
	}
	ns, name := splitKey(p.key)
	obj.ObjectMeta.Namespace, obj.ObjectMeta.Name = ns, name
	b, err := object.EncodeStored(podType, obj)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func splitKey(key string) (ns, name string) {
	for i := range key {
		if key[i] == '/' {
			return key[:i], key[i+1:]
		}
	}
	return "", key
}

// put feeds one batch with one write each.
func (r *rig) put(pods ...pod) {
	r.t.Helper()
	var b store.Batch
	for _, p := range pods {
		r.rev++
		b.Events = append(b.Events, store.Event{Key: "/registry/pods/" + p.key, ModRev: r.rev, Value: p.stored(r.t, r.rev)})
	}
	b.Rev = r.rev
	r.feed(b)
}

func (r *rig) feed(b store.Batch) {
	r.t.Helper()
	r.server.apply(b)
	if _, bench := r.t.(*testing.B); !bench {
		r.check()
	}
}

// del feeds one batch with one deletion each.
func (r *rig) del(keys ...string) {
	var b store.Batch
	for _, key := range keys {
		r.rev++
		b.Events = append(b.Events, store.Event{Key: "/registry/pods/" + key, ModRev: r.rev})
	}
	b.Rev = r.rev
	r.feed(b)
}

// raw feeds one batch with one event as it is.
func (r *rig) raw(key string, value []byte) {
	r.rev++
	r.feed(store.Batch{Rev: r.rev, Events: []store.Event{{Key: key, ModRev: r.rev, Value: value}}})
}

// progress feeds a batch without events, at a revision n further on.
func (r *rig) progress(n int64) {
	r.rev += n
	r.feed(store.Batch{Rev: r.rev})
}

func (r *rig) watch(o WatchOptions) *Cursor {
	r.t.Helper()
	c, err := r.pods.Watch(o)
	if err != nil {
		r.t.Fatalf("watch: %v", err)
	}
	return c
}

// drain returns what the cursor has, as text: "ADDED 101 ns/name@101". The number behind @ is the one of the write that
// made the content.
func drain(t testing.TB, c *Cursor) []string {
	t.Helper()
	out, err := drainErr(t, c)
	if err != nil {
		t.Fatalf("cursor: %v", err)
	}
	return out
}

func drainErr(t testing.TB, c *Cursor) ([]string, error) {
	t.Helper()
	out := []string{}
	for {
		ev, ok, err := c.Next()
		if err != nil {
			return out, err
		}
		if !ok {
			return out, nil
		}
		if ev.Type == Bookmark {
			out = append(out, fmt.Sprintf("BOOKMARK %d", ev.Rev))
			continue
		}
		if ev.Object.Revision() != ev.Rev {
			t.Errorf("event at %d has an object at %d", ev.Rev, ev.Object.Revision())
		}
		out = append(out, fmt.Sprintf("%s %d %s@%s", ev.Type, ev.Rev, ev.Object.Key()[len("/registry/pods/"):], serialOf(t, ev.Object)))
	}
}

// serialOf returns the number of the write that made the content.
func serialOf(t testing.TB, v *object.Version) string {
	t.Helper()
	obj, err := v.Decode()
	if err != nil {
		t.Fatal(err)
	}
	m := obj.(metav1.Object)
	if m.GetResourceVersion() != fmt.Sprint(v.Revision()) {
		t.Errorf("%s: resource version %s in the bytes, %d outside", v.Key(), m.GetResourceVersion(), v.Revision())
	}
	return m.GetAnnotations()["serial"]
}

// names returns the keys of a page, without the resource's prefix.
func names(items []*object.Version) []string {
	out := []string{}
	for _, v := range items {
		out = append(out, v.Key()[len("/registry/pods/"):])
	}
	return out
}

func mustLabels(t testing.TB, s string) labels.Selector {
	t.Helper()
	sel, err := labels.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return sel
}

func mustFields(t testing.TB, s string) fields.Selector {
	t.Helper()
	sel, err := fields.ParseSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return sel
}

func wantEvents(t testing.TB, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("events\n got %q\nwant %q", got, want)
	}
}

// transaction is a batch that creates pods at one revision.
func transaction(t testing.TB, rev int64, keys ...string) store.Batch {
	b := store.Batch{Rev: rev}
	for _, key := range keys {
		b.Events = append(b.Events, store.Event{Key: "/registry/pods/" + key, ModRev: rev, Value: pod{key: key}.stored(t, rev)})
	}
	return b
}

// batchTo is progress.
func batchTo(rev int64) store.Batch { return store.Batch{Rev: rev} }
