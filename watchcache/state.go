package watchcache

import (
	"maps"
	"slices"
	"strings"

	"vigil/object"
	"vigil/watchcache/internal/tree"
)

// state is the content of a cache as of one revision. It never changes.
type state struct {
	rev     int64 // of the last change in it, or of the load
	objects tree.Tree[item]
	indexes []tree.Tree[*bucket] // by position in Resource.Indexes

	// broken holds the keys whose newest value cannot be read, with the reason; nil almost always. objects has
	// the last readable version of such a key, if there was one since the load.
	broken map[string]error
}

// bucket holds the keys of all objects with one value of an indexed field. It has keys, not objects, so that a change
// that leaves the field as it is (almost all do) costs the index nothing.
type bucket struct {
	value string
	keys  tree.Tree[objectKey]
}

func (b *bucket) Key() string { return b.value }

type objectKey string

func (k objectKey) Key() string { return string(k) }

// lookup returns the keys with the value in index i.
func (s *state) lookup(i int, value string) tree.Tree[objectKey] {
	b, ok := s.indexes[i].Get(value)
	if !ok {
		return tree.Tree[objectKey]{}
	}
	return b.keys
}

// get returns the object at key. A broken one is not there.
func (s *state) get(key string) (*object.Version, bool) {
	if _, broken := s.broken[key]; broken {
		return nil, false
	}
	i, ok := s.objects.Get(key)
	return i.Version, ok
}

// brokenIn returns an error that names the broken keys that want reports true for, nil when there are none.
func (s *state) brokenIn(want func(key string) bool) error {
	if len(s.broken) == 0 {
		return nil
	}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(s.broken)) {
		if want(key) {
			keys = append(keys, key)
		}
	}
	if keys == nil {
		return nil
	}
	return &BrokenError{Keys: keys, Cause: s.broken[keys[0]]}
}

// buildState makes the state of a load from items in key order.
func buildState(rev int64, items []item, broken map[string]error, indexes []string) *state {
	s := &state{rev: rev, objects: tree.Build(items), broken: broken}
	for _, label := range indexes {
		byValue := map[string][]objectKey{}
		for _, v := range items {
			value, _ := v.Field(label)
			byValue[value] = append(byValue[value], objectKey(v.Key()))
		}
		buckets := make([]*bucket, 0, len(byValue))
		for value, keys := range byValue {
			buckets = append(buckets, &bucket{strings.Clone(value), tree.Build(keys)})
		}
		slices.SortFunc(buckets, func(a, b *bucket) int { return strings.Compare(a.value, b.value) })
		s.indexes = append(s.indexes, tree.Build(buckets))
	}
	return s
}

// stateEditor makes the next state from one.
type stateEditor struct {
	labels  []string
	objects tree.Editor[item]
	indexes []tree.Editor[*bucket]
	broken  map[string]error
	rev     int64

	indexed, damaged bool // indexes or broken differ from base
	base             *state
}

func (s *state) edit(labels []string) *stateEditor {
	e := &stateEditor{labels: labels, objects: s.objects.Edit(), broken: s.broken, rev: s.rev, base: s}
	for _, idx := range s.indexes {
		e.indexes = append(e.indexes, idx.Edit())
	}
	return e
}

// state publishes what has been edited.
func (e *stateEditor) state() *state {
	s := &state{rev: e.rev, objects: e.objects.Tree(), indexes: e.base.indexes, broken: e.broken}
	if e.indexed {
		s.indexes = make([]tree.Tree[*bucket], len(e.indexes))
		for i := range e.indexes {
			s.indexes[i] = e.indexes[i].Tree()
		}
	}
	e.indexed, e.damaged = false, false
	e.base = s
	return s
}

// set puts v in and returns the item it replaces, the zero one if none.
func (e *stateEditor) set(v item) (old item) {
	e.rev = v.Revision()
	old, replaced := e.objects.Set(v)
	e.mend(v.Key())
	for i, label := range e.labels {
		value, _ := v.Field(label)
		if replaced {
			if before, _ := old.Field(label); before == value {
				continue
			} else {
				e.unindex(i, before, v.Key())
			}
		}
		e.index(i, value, v.Key())
	}
	return old
}

// delete takes key out at revision rev and returns the item that was there, the zero one if none.
func (e *stateEditor) delete(key string, rev int64) (old item) {
	e.rev = rev
	e.mend(key)
	old, found := e.objects.Delete(key)
	if !found {
		return item{}
	}
	for i, label := range e.labels {
		value, _ := old.Field(label)
		e.unindex(i, value, key)
	}
	return old
}

func (e *stateEditor) index(i int, value, key string) {
	e.indexed = true
	b, ok := e.indexes[i].Get(value)
	if !ok {
		e.indexes[i].Set(&bucket{strings.Clone(value), tree.Build([]objectKey{objectKey(key)})})
		return
	}
	keys := b.keys.Edit()
	keys.Set(objectKey(key))
	e.indexes[i].Set(&bucket{b.value, keys.Tree()})
}

func (e *stateEditor) unindex(i int, value, key string) {
	b, ok := e.indexes[i].Get(value)
	if !ok {
		return
	}
	e.indexed = true
	keys := b.keys.Edit()
	keys.Delete(key)
	if keys.Len() == 0 {
		e.indexes[i].Delete(value)
		return
	}
	e.indexes[i].Set(&bucket{b.value, keys.Tree()})
}

// mark is a change of what can be read that no event tells: the value at key cannot be since rev, or, when cause is nil, is gone
// although it never could be.
type mark struct {
	key   string
	rev   int64
	cause error
}

// apply marks a key as unreadable, or takes that back.
func (e *stateEditor) apply(m mark) {
	e.rev = m.rev
	if m.cause == nil {
		e.mend(m.key)
		return
	}
	e.ownBroken()
	e.broken[m.key] = m.cause
}

// isBroken reports whether key is marked as unreadable.
func (e *stateEditor) isBroken(key string) bool { return e.broken[key] != nil }

// mend takes the mark of a key away.
func (e *stateEditor) mend(key string) {
	if _, broken := e.broken[key]; !broken {
		return
	}
	e.ownBroken()
	delete(e.broken, key)
}

func (e *stateEditor) ownBroken() {
	if e.damaged {
		return
	}
	e.damaged = true
	if e.broken = maps.Clone(e.broken); e.broken == nil {
		e.broken = map[string]error{}
	}
}
