package informer

import (
	"fmt"
	"strings"
	"sync"
)

// NamespaceIndex is the name of the index that every indexer has: objects by namespace.
const NamespaceIndex = "namespace"

// IndexFunc returns the values under which an index has an object: it appends them to dst and returns the result. It is
// called again for the same object when that leaves the index and must then say the same. The values may be parts of the
// object's bytes.
type IndexFunc func(dst []string, o *Object) []string

// Aggregate is something that is computed from all objects of an informer and kept up to date change by change: a count, a sum.
type Aggregate interface {
	// Change is told of every change in the same step in which the indexer makes it: old is nil for a new object, now for one that
	// is gone. The indexer is locked meanwhile, so it must be quick and not read from it.
	Change(old, now *Object)
}

// Indexer holds the newest version of every object, by key and by index values. All its methods may be called from many
// goroutines; readers never wait for a handler or the network.
type Indexer struct {
	mu      sync.RWMutex
	objects shrinkMap[*Object]
	indexes map[string]*index
	sums    []Aggregate
	version string   // resource version up to which the contents are complete; may be a part of the newest object
	scratch []string // for index values
	size    int64    // bytes of all objects
}

func newIndexer(indexes map[string]IndexFunc) *Indexer {
	x := &Indexer{indexes: map[string]*index{}}
	for name, fn := range indexes {
		x.indexes[name] = &index{fn: fn}
	}
	return x
}

// Get returns the object of that name.
func (x *Indexer) Get(namespace, name string) (*Object, bool) {
	if namespace == "" {
		return x.GetByKey(name)
	}
	var room [128]byte // makes the key without allocating
	k := append(append(append(room[:0], namespace...), '/'), name...)
	x.mu.RLock()
	o, ok := x.objects.m[string(k)]
	x.mu.RUnlock()
	return o, ok
}

// GetByKey returns the object of that key ("namespace/name" or "name").
func (x *Indexer) GetByKey(key string) (*Object, bool) {
	x.mu.RLock()
	o, ok := x.objects.m[key]
	x.mu.RUnlock()
	return o, ok
}

// Len is the number of objects.
func (x *Indexer) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.objects.m)
}

// SizeBytes is the size of all objects' encoded forms.
func (x *Indexer) SizeBytes() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.size
}

// ResourceVersion returns the version up to which the contents are complete: that of the last list, event or bookmark. It is "" before
// the first list. Contents that are read afterwards are at least as new.
func (x *Indexer) ResourceVersion() string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return strings.Clone(x.version)
}

// List returns the objects of a namespace ("": all), in no order.
func (x *Indexer) List(namespace string) []*Object {
	if namespace != "" {
		out, _ := x.ByIndex(NamespaceIndex, namespace)
		return out
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make([]*Object, 0, len(x.objects.m))
	for _, o := range x.objects.m {
		out = append(out, o)
	}
	return out
}

// ByIndex returns the objects that an index has under value, in no order. It fails when there is no such index.
func (x *Indexer) ByIndex(name, value string) ([]*Object, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.byIndexLocked(name, value)
}

func (x *Indexer) byIndexLocked(name, value string) ([]*Object, error) {
	ix := x.indexes[name]
	if ix == nil {
		return nil, fmt.Errorf("no index %q", name)
	}
	b := ix.buckets.m[value]
	if b == nil {
		return nil, nil
	}
	return b.list(), nil
}

// View is an indexer that does not change, for as long as the function runs that Read calls with it. Aggregates do not change either.
type View struct{ x *Indexer }

// Read calls f with a view, which f must not keep. Changes wait until f returns, so it must be quick, and f must not use the indexer.
func (x *Indexer) Read(f func(View)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	f(View{x})
}

// GetByKey returns the object of that key ("namespace/name" or "name").
func (v View) GetByKey(key string) (*Object, bool) {
	o, ok := v.x.objects.m[key]
	return o, ok
}

// ByIndex returns the objects that an index has under value, in no order. It fails when there is no such index.
func (v View) ByIndex(name, value string) ([]*Object, error) { return v.x.byIndexLocked(name, value) }

// IndexValues returns the values that an index has objects under, in no order.
func (x *Indexer) IndexValues(name string) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	ix := x.indexes[name]
	if ix == nil {
		return nil
	}
	out := make([]string, 0, len(ix.buckets.m))
	for v := range ix.buckets.m {
		out = append(out, v)
	}
	return out
}

// add makes an index over the objects that are there. An index of the same name is kept as it is.
func (x *Indexer) add(name string, fn IndexFunc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.indexes[name] != nil {
		return
	}
	ix := &index{fn: fn}
	for _, o := range x.objects.m {
		x.scratch = ix.put(x.scratch, o)
	}
	x.indexes[name] = ix
}

// aggregate lets a be told of every object that is there, and of every change from now on.
func (x *Indexer) aggregate(a Aggregate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sums = append(x.sums, a)
	for _, o := range x.objects.m {
		a.Change(nil, o)
	}
}

// find is GetByKey for a key that is not a string yet.
func (x *Indexer) find(key []byte) *Object {
	x.mu.RLock()
	o := x.objects.m[string(key)]
	x.mu.RUnlock()
	return o
}

// complete says that the contents are complete up to a version.
func (x *Indexer) complete(version string) {
	x.mu.Lock()
	x.version = version
	x.mu.Unlock()
}

// put stores o, an event's new state, in the place of old, which is nil for a new key.
func (x *Indexer) put(old, o *Object) {
	x.mu.Lock()
	x.putLocked(old, o)
	x.version = o.version()
	x.mu.Unlock()
}

func (x *Indexer) putLocked(old, o *Object) {
	x.objects.put(o.key, o)
	x.size += int64(len(o.data))
	if old != nil {
		x.size -= int64(len(old.data))
	}
	for _, ix := range x.indexes {
		if old != nil {
			x.scratch = ix.replace(x.scratch, old, o)
		} else {
			x.scratch = ix.put(x.scratch, o)
		}
	}
	for _, a := range x.sums {
		a.Change(old, o)
	}
}

// remove takes old out because of an event with a version.
func (x *Indexer) remove(old *Object, version string) {
	x.mu.Lock()
	x.removeLocked(old)
	x.version = version
	x.mu.Unlock()
}

// change is what happened to one object: old is nil when it is new, now when it is gone.
type change struct{ old, now *Object }

// replace makes the contents those of a list at a version, in one step for readers, and returns what that changed.
func (x *Indexer) replace(objects map[string]*Object, version string) []change {
	x.mu.Lock()
	defer x.mu.Unlock()
	var changes []change
	for key, old := range x.objects.m {
		if objects[key] == nil {
			changes = append(changes, change{old: old})
		}
	}
	for key, o := range objects {
		if old := x.objects.m[key]; old == nil || old.version() != o.version() {
			changes = append(changes, change{old, o})
		}
	}
	for _, c := range changes {
		if c.now == nil {
			x.removeLocked(c.old)
		} else {
			x.putLocked(c.old, c.now)
		}
	}
	x.version = version
	return changes
}

func (x *Indexer) removeLocked(old *Object) {
	x.objects.remove(old.key)
	x.size -= int64(len(old.data))
	for _, ix := range x.indexes {
		x.scratch = ix.remove(x.scratch, old)
	}
	for _, a := range x.sums {
		a.Change(old, nil)
	}
}

// index has objects by the values of one index function.
type index struct {
	fn      IndexFunc
	buckets shrinkMap[*bucket] // by value; none is empty
}

func (ix *index) put(scratch []string, o *Object) []string {
	scratch = ix.fn(scratch[:0], o)
	for _, v := range scratch {
		b := ix.buckets.m[v]
		if b == nil {
			b = &bucket{}
			ix.buckets.put(strings.Clone(v), b) // v may be a part of the object's bytes, which this must not keep alive
		}
		b.put(o)
	}
	return scratch
}

func (ix *index) remove(scratch []string, o *Object) []string {
	scratch = ix.fn(scratch[:0], o)
	for _, v := range scratch {
		if b := ix.buckets.m[v]; b != nil {
			b.remove(o.key)
			if b.len() == 0 {
				ix.buckets.remove(v)
			}
		}
	}
	return scratch
}

// replace is remove and put, cheaper when nothing but the object changes.
func (ix *index) replace(scratch []string, old, o *Object) []string {
	scratch = ix.fn(scratch[:0], old)
	n := len(scratch)
	scratch = ix.fn(scratch, o)
	before, after := scratch[:n], scratch[n:]
	if len(before) == 1 && len(after) == 1 && before[0] == after[0] {
		if b := ix.buckets.m[after[0]]; b != nil {
			b.put(o)
			return scratch
		}
	}
	scratch = ix.remove(scratch, old)
	return ix.put(scratch, o)
}

// bucket is a set of objects by key: a slice while it is small, since an index like "by owner" has many small ones.
type bucket struct {
	few  []*Object
	many *shrinkMap[*Object] // nil while few is enough
}

const fewObjects = 8

func (b *bucket) len() int {
	if b.many != nil {
		return len(b.many.m)
	}
	return len(b.few)
}

func (b *bucket) put(o *Object) {
	if b.many != nil {
		b.many.put(o.key, o)
		return
	}
	for i, have := range b.few {
		if have.key == o.key {
			b.few[i] = o
			return
		}
	}
	if len(b.few) < fewObjects {
		b.few = append(b.few, o)
		return
	}
	b.many = &shrinkMap[*Object]{m: make(map[string]*Object, 2*fewObjects)}
	for _, have := range b.few {
		b.many.put(have.key, have)
	}
	b.many.put(o.key, o)
	b.few = nil
}

func (b *bucket) remove(key string) {
	if b.many != nil {
		if b.many.remove(key); len(b.many.m) <= fewObjects/2 {
			b.few, b.many = b.list(), nil
		}
		return
	}
	for i, have := range b.few {
		if have.key == key {
			last := len(b.few) - 1
			b.few[i], b.few[last] = b.few[last], nil
			b.few = b.few[:last]
			return
		}
	}
}

func (b *bucket) list() []*Object {
	out := make([]*Object, 0, b.len())
	if b.many == nil {
		return append(out, b.few...)
	}
	for _, o := range b.many.m {
		out = append(out, o)
	}
	return out
}
