package flowcontrol

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/informers"
	group "k8s.io/client-go/informers/flowcontrol"
	version "k8s.io/client-go/informers/flowcontrol/v1"
	listers "k8s.io/client-go/listers/flowcontrol/v1"
	"k8s.io/client-go/tools/cache"

	"vigil/watchcache"
)

// source shows the objects of one watch cache to the engine, which expects an informer. Only what the engine asks of one
// is there: the embedded interfaces are nil.
type source struct {
	cache.SharedIndexInformer
	from    *watchcache.Cache
	objects cache.Indexer
	synced  chan struct{} // closed when all that was there at first has been shown
	loaded  atomic.Bool
	log     *slog.Logger

	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
}

func newSource(from *watchcache.Cache, log *slog.Logger) *source {
	return &source{
		from: from, log: log, synced: make(chan struct{}),
		objects: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
	}
}

// HasSynced implements cache.SharedIndexInformer.
func (s *source) HasSynced() bool { return s.loaded.Load() }

// AddEventHandler implements cache.SharedIndexInformer. The engine adds its own before Run.
func (s *source) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers = append(s.handlers, h)
	return nil, nil //nolint:nilnil // nobody asks for the registration
}

// follow shows everything and then each change, until ctx ends.
func (s *source) follow(ctx context.Context) error {
	for {
		if err := s.from.WaitLoaded(ctx); err != nil {
			return fmt.Errorf("wait for %s: %w", s.from.Resource().Name, err)
		}
		if err := s.followFrom(ctx, s.from.Snapshot()); !errors.Is(err, watchcache.ErrExpired) {
			return err
		}
	}
}

// followFrom goes on until it falls behind the window of the cache.
func (s *source) followFrom(ctx context.Context, start *watchcache.Snapshot) error {
	cursor, err := s.from.Watch(watchcache.WatchOptions{Initial: start})
	if err != nil {
		return fmt.Errorf("watch %s: %w", s.from.Resource().Name, err)
	}
	defer cursor.Close()
	before := map[string]any{} // what is not there any more, if this is not the first time
	for _, obj := range s.objects.List() {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return err
		}
		before[key] = obj
	}
	for {
		for {
			event, ok, err := cursor.Next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			s.apply(event, before)
		}
		for _, obj := range before {
			s.remove(obj)
		}
		before = nil
		if !s.loaded.Swap(true) {
			close(s.synced)
		}
		if err := cursor.Wait(ctx); err != nil {
			return err
		}
	}
}

func (s *source) apply(event watchcache.Event, before map[string]any) {
	if event.Object == nil {
		return
	}
	obj, err := event.Object.Decode()
	if err == nil && event.Type == watchcache.Deleted {
		s.remove(obj)
		return
	}
	var key string
	if err == nil {
		key, err = cache.MetaNamespaceKeyFunc(obj)
	}
	if err != nil {
		s.log.Error("the API server cannot decode a FlowSchema or PriorityLevelConfiguration; what it was before stays in force", "key", event.Object.Key(), "error", err)
		return
	}
	delete(before, key)
	old, found, _ := s.objects.GetByKey(key) // an Indexer's never fails
	_ = s.objects.Update(obj)
	for _, h := range s.all() {
		if found {
			h.OnUpdate(old, obj)
		} else {
			h.OnAdd(obj, false)
		}
	}
}

func (s *source) remove(obj any) {
	_ = s.objects.Delete(obj)
	for _, h := range s.all() {
		h.OnDelete(obj)
	}
}

func (s *source) all() []cache.ResourceEventHandler {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handlers
}

// factory is the engine's way to its two sources.
type factory struct {
	informers.SharedInformerFactory
	levels, schemas *source
}

func (f factory) Flowcontrol() group.Interface { return groupOf{factory: f} }

type groupOf struct {
	group.Interface
	factory factory
}

func (g groupOf) V1() version.Interface { return versionOf{factory: g.factory} }

type versionOf struct {
	version.Interface
	factory factory
}

func (v versionOf) FlowSchemas() version.TypedFlowSchemaInformer {
	return schemaInformer{source: v.factory.schemas}
}

func (v versionOf) PriorityLevelConfigurations() version.TypedPriorityLevelConfigurationInformer {
	return levelInformer{source: v.factory.levels}
}

type schemaInformer struct {
	version.TypedFlowSchemaInformer
	source *source
}

func (i schemaInformer) Informer() cache.SharedIndexInformer { return i.source }
func (i schemaInformer) Lister() listers.FlowSchemaLister {
	return listers.NewFlowSchemaLister(i.source.objects)
}

type levelInformer struct {
	version.TypedPriorityLevelConfigurationInformer
	source *source
}

func (i levelInformer) Informer() cache.SharedIndexInformer { return i.source }
func (i levelInformer) Lister() listers.PriorityLevelConfigurationLister {
	return listers.NewPriorityLevelConfigurationLister(i.source.objects)
}
