package watchcache_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/object"
	"vigil/store"
	"vigil/store/storetest"
	"vigil/watchcache"
	"vigil/watchcache/cachetest"
)

var (
	propertySeed   = flag.Uint64("property.seed", 0, "seed of the first round of TestProperty; 0 picks one")
	propertyRounds = flag.Int("property.rounds", 3, "rounds of TestProperty, each with the next seed")
	propertyWrites = flag.Int("property.writes", 1500, "writes in each round of TestProperty")
)

var podType = &object.Type{
	APIVersion: "v1", Kind: "Pod", Namespaced: true,
	New:    func() runtime.Object { return new(corev1.Pod) },
	Fields: []object.Field{{Label: "spec.nodeName", Proto: []int32{2, 10}}},
}

var pods = watchcache.Resource{Name: "pods", Prefix: "/registry/pods/", Type: podType, Indexes: []string{"spec.nodeName"}}

// Every stream and every list is the filtered history, whatever happens: compaction, a new server, a lost feed.
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
			target := newTarget(t, watchcache.Config{
				Window:  watchcache.Window{MaxEvents: []int{50, 300, 100000}[rnd.IntN(3)]},
				Backlog: []int64{-1, 100, 0}[rnd.IntN(3)],
			}, rnd.IntN(2) == 0)
			stats := cachetest.Run(t, target, cachetest.Options{
				Seed:     seed,
				Writes:   *propertyWrites,
				Writers:  4,
				Watchers: 40,
				Readers:  4,
				Mishaps:  []func(context.Context) error{target.restart, target.compact, target.loseFeed, target.delayFeed, target.check, target.check},
			})
			t.Log(stats)
			if stats.Writes < int64(*propertyWrites)/4*4 || stats.Events == 0 || stats.Mishaps < 4 || stats.Reconnects == 0 {
				t.Errorf("not enough has been checked: %v", stats)
			}
		})
	}
}

// target is the cache in this process, on a real etcd.
type target struct {
	t        testing.TB
	etcd     storetest.Target
	store    *gatedStore
	cfg      watchcache.Config
	bookmark bool // streams have bookmarks

	mu    sync.RWMutex // held for writing while the server is replaced
	cache *watchcache.Cache
	alive context.Context // ends with the server
	stop  func()
}

func newTarget(t testing.TB, cfg watchcache.Config, bookmarks bool) *target {
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	tg := &target{t: t, etcd: storetest.NewTarget(t), cfg: cfg, bookmark: bookmarks}
	tg.store = &gatedStore{Store: tg.etcd.Store, open: make(chan struct{})}
	close(tg.store.open)
	tg.begin()
	t.Cleanup(func() { tg.stop() })
	return tg
}

func (tg *target) begin() {
	_, caches, stop := start(tg.t, tg.store, tg.cfg, pods)
	alive, end := context.WithCancel(context.Background())
	tg.cache, tg.alive = caches[0], alive
	tg.stop = func() { end(); stop() }
}

// restart replaces the server: what it had in memory is gone.
func (tg *target) restart(context.Context) error {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	tg.stop()
	tg.begin()
	return nil
}

// check checks the cache while it is written and read.
func (tg *target) check(context.Context) error {
	tg.mu.RLock()
	defer tg.mu.RUnlock()
	return tg.cache.Check()
}

func (tg *target) compact(ctx context.Context) error {
	rev, err := tg.store.Revision(ctx)
	if err != nil {
		return err
	}
	_, err = tg.etcd.Etcd.Client().Compact(ctx, max(1, rev-rand.Int64N(30)))
	if err != nil && strings.Contains(err.Error(), "has been compacted") {
		return nil
	}
	return err
}

// delayFeed breaks the feed and lets it go on where it was.
func (tg *target) delayFeed(ctx context.Context) error { return tg.store.hold(ctx, nil) }

// loseFeed breaks the feed and takes from etcd what it has not seen.
func (tg *target) loseFeed(ctx context.Context) error {
	return tg.store.hold(ctx, func() error {
		rev, err := tg.store.Revision(ctx)
		if err != nil {
			return err
		}
		_, err = tg.etcd.Etcd.Client().Compact(ctx, rev)
		if err != nil && strings.Contains(err.Error(), "has been compacted") {
			return nil
		}
		return err
	})
}

// gatedStore can break the feed and hold it back.
type gatedStore struct {
	*store.Store
	mu   sync.Mutex
	open chan struct{} // closed while feeds may run
	stop context.CancelFunc
}

var errHeld = errors.New("held by the test")

func (g *gatedStore) Feed(ctx context.Context, after int64, fn func(store.Batch) error) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		return ctx.Err()
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	g.mu.Lock()
	g.stop = cancel
	g.mu.Unlock()
	err := g.Store.Feed(inner, after, fn)
	if ctx.Err() == nil && inner.Err() != nil {
		return errHeld
	}
	return err
}

// hold stops the feed, makes a write that it will not have seen, does what is asked, and lets the feed go on.
func (g *gatedStore) hold(ctx context.Context, meanwhile func() error) error {
	g.mu.Lock()
	g.open = make(chan struct{})
	if g.stop != nil {
		g.stop()
	}
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		close(g.open)
		g.mu.Unlock()
	}()
	key := "/registry/elsewhere/held"
	if kv, err := g.Get(ctx, key); err == nil {
		if _, err := g.Delete(ctx, key, kv.ModRev); err != nil {
			return err
		}
	}
	if _, err := g.Create(ctx, key, []byte("{}"), 0); err != nil {
		return err
	}
	if meanwhile == nil {
		return nil
	}
	return meanwhile()
}

func (tg *target) Write(ctx context.Context, o cachetest.Object, rev int64) (int64, error) {
	key := pods.Prefix + o.Key()
	if rev < 0 {
		return tg.store.Delete(ctx, key, -rev)
	}
	obj := &corev1.Pod{Spec: corev1.PodSpec{NodeName: o.Node}}
	obj.Namespace, obj.Name = o.Namespace, o.Name
	obj.Annotations = map[string]string{"serial": fmt.Sprint(o.Serial)}
	if o.App != "" {
		obj.Labels = map[string]string{"app": o.App}
	}
	value, err := object.EncodeStored(podType, obj)
	if err != nil {
		return 0, err
	}
	if rev == 0 {
		return tg.store.Create(ctx, key, value, 0)
	}
	return tg.store.Update(ctx, key, value, rev, 0)
}

func selection(s cachetest.Selector) (sel watchcache.Selection, err error) {
	sel.Namespace = s.Namespace
	if sel.Labels, err = labels.Parse(s.Labels); err != nil {
		return sel, err
	}
	sel.Fields, err = fields.ParseSelector(s.Fields)
	return sel, err
}

func seen(v *object.Version) cachetest.Object {
	obj, err := v.Decode()
	if err != nil {
		panic(err)
	}
	pod := obj.(*corev1.Pod)
	o := cachetest.Object{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, App: pod.Labels["app"]}
	if _, err := fmt.Sscan(pod.Annotations["serial"], &o.Serial); err != nil {
		panic(err)
	}
	if pod.ResourceVersion != fmt.Sprint(v.Revision()) {
		panic("wrong resource version in the bytes")
	}
	return o
}

func expired(err error) error {
	if errors.Is(err, watchcache.ErrExpired) {
		return cachetest.ErrExpired
	}
	return err
}

func (tg *target) List(ctx context.Context, s cachetest.Selector, rev int64, limit int) (int64, []cachetest.Item, error) {
	tg.mu.RLock()
	defer tg.mu.RUnlock()
	sel, err := selection(s)
	if err != nil {
		return 0, nil, err
	}
	f := watchcache.Consistent()
	if rev > 0 {
		f = watchcache.Exactly(rev)
	}
	var items []cachetest.Item
	for from := ""; ; {
		snap, err := tg.cache.Read(ctx, f)
		if err != nil {
			return 0, nil, expired(err)
		}
		page, err := snap.List(sel, from, limit)
		if err != nil {
			return 0, nil, err
		}
		for _, v := range page.Items {
			items = append(items, cachetest.Item{Object: seen(v), Rev: v.Revision()})
		}
		f = watchcache.Exactly(snap.Revision())
		if from = page.Next; from == "" {
			return snap.Revision(), items, nil
		}
	}
}

func (tg *target) Watch(ctx context.Context, s cachetest.Selector, after int64) (cachetest.Stream, error) {
	tg.mu.RLock()
	defer tg.mu.RUnlock()
	sel, err := selection(s)
	if err != nil {
		return nil, err
	}
	f, initial := watchcache.Exactly(after), false
	if after < 0 {
		f, initial = watchcache.Consistent(), true
	}
	c, err := tg.cache.StartWatch(ctx, f, initial, watchcache.WatchOptions{Selection: sel, EndBookmark: true})
	if err != nil {
		return nil, expired(err)
	}
	return &stream{cursor: c, alive: tg.alive, bookmarks: tg.bookmark}, nil
}

type stream struct {
	cursor    *watchcache.Cursor
	alive     context.Context
	bookmarks bool
	marked    int64
	ahead     []cachetest.Event // taken from the cursor by Pending
}

var errServerGone = errors.New("the server has been replaced")

// take returns an event if there is one now.
func (s *stream) take() (cachetest.Event, bool, error) {
	if len(s.ahead) > 0 {
		ev := s.ahead[0]
		s.ahead = s.ahead[1:]
		return ev, true, nil
	}
	ev, ok, err := s.cursor.Next()
	switch {
	case err != nil:
		return cachetest.Event{}, false, expired(err)
	case ok && ev.Type == watchcache.Bookmark:
		s.marked = ev.Rev
		return cachetest.Event{Type: "BOOKMARK", Rev: ev.Rev, InitialEnd: true}, true, nil
	case ok && ev.Object.Revision() != ev.Rev:
		return cachetest.Event{}, false, fmt.Errorf("event at %d has an object at %d", ev.Rev, ev.Object.Revision())
	case ok:
		// A bookmark may come between any two events, so look at what it would say there.
		if progress := s.cursor.Progress(); s.bookmarks && progress > s.marked && rand.IntN(4) == 0 {
			s.marked = progress
			s.ahead = append(s.ahead, cachetest.Event{Type: "BOOKMARK", Rev: progress})
		}
		return cachetest.Event{Type: string(ev.Type), Rev: ev.Rev, Object: seen(ev.Object)}, true, nil
	}
	if progress := s.cursor.Progress(); s.bookmarks && progress > s.marked {
		s.marked = progress
		return cachetest.Event{Type: "BOOKMARK", Rev: progress}, true, nil
	}
	return cachetest.Event{}, false, nil
}

func (s *stream) Next(ctx context.Context) (cachetest.Event, error) {
	for {
		if s.alive.Err() != nil {
			return cachetest.Event{}, errServerGone
		}
		ev, ok, err := s.take()
		if ok || err != nil {
			return ev, err
		}
		both, cancel := context.WithCancel(ctx)
		unlink := context.AfterFunc(s.alive, cancel)
		err = s.cursor.Wait(both)
		unlink()
		cancel()
		if err != nil {
			if s.alive.Err() != nil {
				return cachetest.Event{}, errServerGone
			}
			return cachetest.Event{}, err
		}
	}
}

func (s *stream) Pending() bool {
	ev, ok, _ := s.take()
	if ok {
		s.ahead = append([]cachetest.Event{ev}, s.ahead...)
	}
	return ok
}

func (s *stream) Close() { s.cursor.Close() }
