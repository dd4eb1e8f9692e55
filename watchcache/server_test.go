package watchcache_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/object"
	"vigil/store"
	"vigil/store/storetest"
	"vigil/watchcache"
)

var configMapType = &object.Type{APIVersion: "v1", Kind: "ConfigMap", Namespaced: true, New: func() runtime.Object { return new(corev1.ConfigMap) }}

var configMaps = watchcache.Resource{Name: "configmaps", Prefix: "/registry/configmaps/", Type: configMapType}

// start runs a server until the test ends or stop is called.
func start(t testing.TB, st watchcache.Store, cfg watchcache.Config, resources ...watchcache.Resource) (s *watchcache.Server, caches []*watchcache.Cache, stop func()) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s = watchcache.NewServer(st, cfg)
	for _, r := range resources {
		caches = append(caches, s.Add(r))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	}
	t.Cleanup(stop)
	ready, cancelReady := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancelReady()
	if err := s.WaitReady(ready); err != nil {
		t.Fatal(err)
	}
	return s, caches, stop
}

func configMap(t testing.TB, name, data string) (key string, value []byte) {
	t.Helper()
	obj := &corev1.ConfigMap{Data: map[string]string{"data": data}}
	obj.Namespace, obj.Name = "default", name
	value, err := object.EncodeStored(configMapType, obj)
	if err != nil {
		t.Fatal(err)
	}
	return configMaps.Prefix + "default/" + name, value
}

func create(t testing.TB, st *store.Store, name, data string) int64 {
	t.Helper()
	key, value := configMap(t, name, data)
	rev, err := st.Create(t.Context(), key, value, 0)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func read(t testing.TB, c *watchcache.Cache, f watchcache.Freshness) *watchcache.Snapshot {
	t.Helper()
	snap, err := c.Read(t.Context(), f)
	if err != nil {
		t.Fatalf("read %v: %v", f, err)
	}
	return snap
}

// nextEvent waits for an event.
func nextEvent(t testing.TB, c *watchcache.Cursor) watchcache.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		ev, ok, err := c.Next()
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		if ok {
			return ev
		}
		if err := c.Wait(ctx); err != nil {
			t.Fatalf("wait for an event: %v", err)
		}
	}
}

func TestServer_FollowsTheStore(t *testing.T) {
	st := storetest.New(t)
	create(t, st, "before", "1")
	_, caches, _ := start(t, st, watchcache.Config{}, configMaps)
	c := caches[0]
	if _, ok := c.Get(configMaps.Prefix + "default/before"); !ok {
		t.Error("an object from before the start is missing")
	}
	w, err := c.Watch(watchcache.WatchOptions{After: read(t, c, watchcache.Consistent()).Revision()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	rev := create(t, st, "after", "2")
	if snap := read(t, c, watchcache.Consistent()); snap.Len() != 2 || snap.Revision() < rev {
		t.Errorf("a consistent read after a write at %d shows %d objects at %d", rev, snap.Len(), snap.Revision())
	}
	if ev := nextEvent(t, w); ev.Type != watchcache.Added || ev.Rev != rev || ev.Object.Name() != "after" {
		t.Errorf("got %s %s at %d, want ADDED after at %d", ev.Type, ev.Object.Key(), ev.Rev, rev)
	}
}

// Writes elsewhere make no events, and still a read must see how far it is.
func TestServer_ConsistentAfterForeignWrites(t *testing.T) {
	target := storetest.NewTarget(t)
	_, caches, _ := start(t, target.Store, watchcache.Config{}, configMaps)
	for i := range 5 {
		resp, err := target.Etcd.Client().Put(t.Context(), "elsewhere", fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, caches[0], watchcache.Consistent()).Revision(); got < resp.Header.Revision {
			t.Errorf("a consistent read is at %d, the store at %d", got, resp.Header.Revision)
		}
	}
}

// A client that was at some revision goes on from it after a restart, unless etcd itself has forgotten.
func TestServer_ResumeAfterRestart(t *testing.T) {
	target := storetest.NewTarget(t)
	st := target.Store
	var revs []int64
	for i := range 20 {
		revs = append(revs, create(t, st, fmt.Sprintf("c%02d", i), "1"))
	}
	if _, err := st.Delete(t.Context(), configMaps.Prefix+"default/c03", revs[3]); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name           string
		backlog        int64
		compact        int64
		oldest, tooOld int64
	}{
		{name: "all history", oldest: revs[0] - 1},
		{name: "some history", backlog: 5, oldest: revs[16], tooOld: revs[14]},
		{name: "compacted", compact: revs[10], oldest: revs[10], tooOld: revs[9]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.compact > 0 {
				if _, err := target.Etcd.Client().Compact(t.Context(), tc.compact); err != nil {
					t.Fatal(err)
				}
			}
			_, caches, stop := start(t, st, watchcache.Config{Backlog: tc.backlog}, configMaps)
			defer stop()
			w, err := caches[0].Watch(watchcache.WatchOptions{After: tc.oldest})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			for _, rev := range revs {
				if rev <= tc.oldest {
					continue
				}
				if ev := nextEvent(t, w); ev.Type != watchcache.Added || ev.Rev != rev {
					t.Errorf("got %s at %d, want ADDED at %d", ev.Type, ev.Rev, rev)
				}
			}
			if ev := nextEvent(t, w); ev.Type != watchcache.Deleted || ev.Object.Name() != "c03" {
				t.Errorf("got %s %s, want DELETED c03", ev.Type, ev.Object.Key())
			}
			if tc.tooOld > 0 {
				if _, err := caches[0].Watch(watchcache.WatchOptions{After: tc.tooOld}); !errors.Is(err, watchcache.ErrExpired) {
					t.Errorf("watch after %d: %v, want ErrExpired", tc.tooOld, err)
				}
			}
		})
	}
}

// A resource that comes while the server runs is loaded on its own, and misses nothing that happens meanwhile.
func TestServer_AddWhileRunning(t *testing.T) {
	st := storetest.New(t)
	s, _, _ := start(t, st, watchcache.Config{})
	create(t, st, "before", "1")
	writing, stopWriting := context.WithCancel(t.Context())
	written := make(chan int)
	go func() {
		n := 0
		for writing.Err() == nil {
			key, value := configMap(t, fmt.Sprintf("w%05d", n), "1")
			if _, err := st.Create(t.Context(), key, value, 0); err != nil {
				t.Error(err)
				break
			}
			n++
		}
		written <- n
	}()
	c := s.Add(configMaps)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := c.WaitLoaded(ctx); err != nil {
		t.Fatal(err)
	}
	stopWriting()
	n := <-written
	if got := read(t, c, watchcache.Consistent()).Len(); got != n+1 {
		t.Errorf("%d objects, want %d", got, n+1)
	}
	w, err := c.Watch(watchcache.WatchOptions{After: c.Snapshot().Revision()})
	if err != nil {
		t.Fatal(err)
	}
	s.Remove(c)
	if _, _, err := w.Next(); !errors.Is(err, watchcache.ErrRemoved) {
		t.Errorf("a watch of a removed resource ends with %v", err)
	}
	w.Close()
	if _, err := c.Read(t.Context(), watchcache.Any()); !errors.Is(err, watchcache.ErrRemoved) {
		t.Errorf("a read of a removed resource: %v, want ErrRemoved", err)
	}
	if _, err := c.Watch(watchcache.WatchOptions{}); !errors.Is(err, watchcache.ErrRemoved) {
		t.Errorf("a watch of a removed resource: %v, want ErrRemoved", err)
	}
}

// flakyStore fails a number of times before it works.
type flakyStore struct {
	*store.Store
	failures atomic.Int32
}

func (f *flakyStore) fail() error {
	if f.failures.Add(-1) >= 0 {
		return store.ErrUnavailable
	}
	return nil
}

func (f *flakyStore) Revision(ctx context.Context) (int64, error) {
	if err := f.fail(); err != nil {
		return 0, err
	}
	return f.Store.Revision(ctx)
}

func (f *flakyStore) LoadAll(ctx context.Context, prefix string, rev int64, fn func([]store.KV) error) (int64, error) {
	if err := f.fail(); err != nil {
		return 0, err
	}
	return f.Store.LoadAll(ctx, prefix, rev, fn)
}

// A store that is not there yet delays the start and the addition of a resource, nothing more.
func TestServer_StoreUnavailable(t *testing.T) {
	st := &flakyStore{Store: storetest.New(t)}
	create(t, st.Store, "one", "1")
	st.failures.Store(2)
	s, caches, _ := start(t, st, watchcache.Config{}, configMaps)
	if n := read(t, caches[0], watchcache.Consistent()).Len(); n != 1 {
		t.Errorf("%d objects, want 1", n)
	}
	st.failures.Store(1)
	if _, err := caches[0].Read(t.Context(), watchcache.Consistent()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a consistent read: %v, want ErrUnavailable", err)
	}
	st.failures.Store(1)
	late := s.Add(watchcache.Resource{Name: "configmaps.again", Prefix: configMaps.Prefix, Type: configMapType})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := late.WaitLoaded(ctx); err != nil {
		t.Fatal(err)
	}
	if n := late.Len(); n != 1 {
		t.Errorf("%d objects in a resource added later, want 1", n)
	}
}

// scribblingStore uses the memory of loaded values for something else, as the store may.
type scribblingStore struct{ *store.Store }

func (s scribblingStore) LoadAll(ctx context.Context, prefix string, rev int64, fn func([]store.KV) error) (int64, error) {
	return s.Store.LoadAll(ctx, prefix, rev, func(kvs []store.KV) error {
		err := fn(kvs)
		for _, kv := range kvs {
			for i := range kv.Value {
				kv.Value[i] = 0xff
			}
		}
		return err
	})
}

// A load keeps nothing of the values that it was given: neither of protobuf nor of JSON.
func TestServer_LoadKeepsNoValues(t *testing.T) {
	st := scribblingStore{storetest.New(t)}
	create(t, st.Store, "protobuf", "1")
	asJSON := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"json","namespace":"default"},"data":{"k":"v"}}`
	if _, err := st.Create(t.Context(), configMaps.Prefix+"default/json", []byte(asJSON), 0); err != nil {
		t.Fatal(err)
	}
	objects := map[string]string{} // what they are, from the feed and then from the load
	for _, backlog := range []int64{0, -1} {
		_, caches, stop := start(t, st, watchcache.Config{Backlog: backlog}, configMaps)
		page, err := read(t, caches[0], watchcache.Consistent()).List(watchcache.Selection{}, "", 0)
		if err != nil || len(page.Items) != 2 {
			t.Fatalf("backlog %d: %d objects, %v", backlog, len(page.Items), err)
		}
		for _, v := range page.Items {
			b, err := v.JSON()
			if err != nil {
				t.Fatal(err)
			}
			is := string(b)
			if backlog == 0 {
				objects[v.Key()] = is
			} else if is != objects[v.Key()] {
				t.Errorf("%s from the load is %q, from the feed %q", v.Key(), is, objects[v.Key()])
			}
		}
		stop()
	}
}

// What cannot be read at the start is told to those it concerns.
func TestServer_LoadBroken(t *testing.T) {
	st := storetest.New(t)
	create(t, st, "good", "1")
	if _, err := st.Create(t.Context(), configMaps.Prefix+"default/bad", []byte("rubbish"), 0); err != nil {
		t.Fatal(err)
	}
	for _, backlog := range []int64{-1, 0} { // found by the load, and by the feed
		_, caches, stop := start(t, st, watchcache.Config{Backlog: backlog}, configMaps)
		snap := read(t, caches[0], watchcache.Consistent())
		if _, ok := snap.Get(configMaps.Prefix + "default/good"); !ok {
			t.Error("the good object is missing")
		}
		if err := snap.Broken(configMaps.Prefix + "default/bad"); !errors.Is(err, watchcache.ErrBroken) {
			t.Errorf("the bad object: %v, want ErrBroken", err)
		}
		if _, err := snap.List(watchcache.Selection{}, "", 0); !errors.Is(err, watchcache.ErrBroken) {
			t.Errorf("list: %v, want ErrBroken", err)
		}
		stop()
	}
}
