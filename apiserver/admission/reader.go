package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/kinds"
	"vigil/object"
	"vigil/store"
	"vigil/watchcache"
)

// Reader is how plug-ins look at other objects. What it returns is shared: nobody may change it.
type Reader interface {
	// Get returns an object as this server has it in memory. It shows every write that this server has acknowledged, and those of
	// others a little later. A missing object is a NotFound Status.
	Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error)
	// Live returns an object as etcd has it.
	Live(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error)
	// List returns the objects of a namespace ("": all) in the order of their names, as Get does.
	List(ctx context.Context, resource schema.GroupResource, namespace string) ([]kinds.Object, error)
}

// Find is Get that asks etcd before it says that there is nothing.
func Find(ctx context.Context, r Reader, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	obj, err := r.Get(ctx, resource, namespace, name)
	if apierrors.IsNotFound(err) {
		return r.Live(ctx, resource, namespace, name)
	}
	return obj, err
}

// Caches is a [Reader] over the watch caches of this server.
type Caches struct {
	prefix string
	find   func(schema.GroupResource) *Stored
	store  getter

	decoded decodedObjects
}

// Stored is a stored kind as plug-ins read it.
type Stored struct {
	kind    *kinds.Kind
	cache   *watchcache.Cache
	written *atomic.Int64 // revision of the newest write by this server
}

// NewStored makes a kind readable that is stored, with its cache.
func NewStored(k *kinds.Kind, cache *watchcache.Cache) *Stored {
	return &Stored{kind: k, cache: cache, written: new(atomic.Int64)}
}

// As returns the same for another row that takes the cache over.
func (s *Stored) As(k *kinds.Kind) *Stored {
	return &Stored{kind: k, cache: s.cache, written: s.written}
}

// Cache is the kind's.
func (s *Stored) Cache() *watchcache.Cache { return s.cache }

// Wrote notes that this server has written an object of the kind at a revision.
func (s *Stored) Wrote(rev int64) {
	for {
		old := s.written.Load()
		if rev <= old || s.written.CompareAndSwap(old, rev) {
			return
		}
	}
}

// snapshot returns the content of the cache once that has this server's writes.
func (s *Stored) snapshot(ctx context.Context) (*watchcache.Snapshot, error) {
	snapshot := s.cache.Snapshot()
	if rev := s.written.Load(); snapshot.Revision() < rev {
		return s.cache.Read(ctx, watchcache.NotOlderThan(rev))
	}
	return snapshot, nil
}

// getter is what Caches needs of *store.Store.
type getter interface {
	Get(ctx context.Context, key string) (store.KV, error)
}

// NewCaches returns a reader of the stored kinds that find finds; nil is that there is none. prefix is that of all keys, with a slash at the end.
func NewCaches(find func(schema.GroupResource) *Stored, prefix string, store getter) *Caches {
	return &Caches{prefix: prefix, find: find, store: store}
}

func (c *Caches) stored(resource schema.GroupResource) (*Stored, error) {
	if s := c.find(resource); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("admission: %s is not stored here", resource)
}

func (c *Caches) key(k *kinds.Kind, namespace, name string) string {
	if k.Namespaced {
		return c.prefix + k.Path + "/" + namespace + "/" + name
	}
	return c.prefix + k.Path + "/" + name
}

// Get implements [Reader].
func (c *Caches) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	stored, err := c.stored(resource)
	if err != nil {
		return nil, err
	}
	s, err := stored.snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", resource, err)
	}
	v, ok := s.Get(c.key(stored.kind, namespace, name))
	if !ok {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return c.decode(stored.kind, v)
}

// Live implements [Reader].
func (c *Caches) Live(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	stored, err := c.stored(resource)
	if err != nil {
		return nil, err
	}
	k := stored.kind
	key := c.key(k, namespace, name)
	kv, err := c.store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, apierrors.NewNotFound(resource, name)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", resource, name, err)
	}
	v, err := object.NewVersion(k.Type, key, kv.ModRev, kv.Value)
	if err != nil {
		return nil, err
	}
	return decode(k, v)
}

// List implements [Reader].
func (c *Caches) List(ctx context.Context, resource schema.GroupResource, namespace string) ([]kinds.Object, error) {
	stored, err := c.stored(resource)
	if err != nil {
		return nil, err
	}
	s, err := stored.snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource, err)
	}
	if s.Len() == 0 {
		return nil, nil
	}
	page, err := s.List(watchcache.Selection{Namespace: namespace}, "", 0)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource, err)
	}
	if len(page.Items) == 0 {
		return nil, nil
	}
	list := make([]kinds.Object, len(page.Items))
	for i, v := range page.Items {
		if list[i], err = c.decode(stored.kind, v); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// decode decodes a version and keeps the object for those who ask soon.
func (c *Caches) decode(k *kinds.Kind, v *object.Version) (kinds.Object, error) {
	if obj, ok := c.decoded.get(v); ok {
		return obj, nil
	}
	obj, err := decode(k, v)
	if err != nil {
		return nil, err
	}
	c.decoded.put(v, obj)
	return obj, nil
}

func decode(k *kinds.Kind, v *object.Version) (kinds.Object, error) {
	decoded, err := v.Decode()
	if err != nil {
		return nil, err
	}
	obj, ok := decoded.(kinds.Object)
	if !ok {
		return nil, fmt.Errorf("decode %s: %T has no metadata", v.Key(), decoded)
	}
	if k.Default != nil {
		k.Default(obj)
	}
	return obj, nil
}
