package watchcache

import (
	"errors"
	"fmt"
	"strings"

	"vigil/watchcache/internal/tree"
)

// Check returns an error for the first rule that is broken in any of the caches, nil when there is none.
func (s *Server) Check() error {
	s.mu.Lock()
	caches := append([]*Cache(nil), s.caches...)
	s.mu.Unlock()
	for _, c := range caches {
		if err := c.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an error for the first rule that is broken in the cache, nil when there is none. The rules concern
//
//   - the trees of the newest content and of every older one that the window keeps, and their indexes;
//   - what the cache has noted of each object, compared with the object;
//   - the window: its order, its counts, and the places of its events on the branches;
//   - what connects them: the events of a chunk turn the content before it into the content behind it.
//
// Check may be called while the cache is in use. It holds the cache's lock while it visits each branch and each watcher once. What else it
// reads never changes, so the lock is free by then: 0.2 s with 10,000 objects and 20,000 events. When what it reads leaves the window
// meanwhile, it begins again.
func (c *Cache) Check() error {
	const attempts = 10
	k := newContentChecker(c)
	var v *view
	var err error
	for range attempts {
		if v, err = c.view(); err != nil {
			return fmt.Errorf("watch cache of %s: window: %w", c.res.Name, err)
		}
		if v == nil {
			return nil // not loaded
		}
		if err = v.check(k); !errors.Is(err, errMoved) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("watch cache of %s: window from %d to %d: %w", c.res.Name, v.oldest, v.newest, err)
	}
	if err = k.state(v.current); err == nil {
		err = k.notes(v.current)
	}
	if err != nil {
		return fmt.Errorf("watch cache of %s: content at revision %d: %w", c.res.Name, v.current.rev, err)
	}
	return nil
}

// contentChecker checks states of one cache. It reads what they share only once.
type contentChecker struct {
	cache   *Cache
	objects *tree.Checker[item]
	indexes *tree.Checker[*bucket]
	keys    *tree.Checker[objectKey]
	sound   map[*bucket]bool // buckets never change
}

func newContentChecker(c *Cache) *contentChecker {
	return &contentChecker{
		cache:   c,
		objects: tree.NewChecker[item](),
		indexes: tree.NewChecker[*bucket](),
		keys:    tree.NewChecker[objectKey](),
		sound:   map[*bucket]bool{},
	}
}

// state checks the shapes of the trees, and that each index has as many keys as there are objects.
func (k *contentChecker) state(s *state) error {
	if err := k.objects.Check(s.objects); err != nil {
		return fmt.Errorf("tree of objects: %w", err)
	}
	if len(s.indexes) != len(k.cache.res.Indexes) {
		return fmt.Errorf("%d indexes, want %d", len(s.indexes), len(k.cache.res.Indexes))
	}
	for i, index := range s.indexes {
		if err := k.index(index, s.objects.Len()); err != nil {
			return fmt.Errorf("index of %s: %w", k.cache.res.Indexes[i], err)
		}
	}
	return nil
}

func (k *contentChecker) index(index tree.Tree[*bucket], want int) error {
	if err := k.indexes.Check(index); err != nil {
		return err
	}
	keys := 0
	it := index.Seek("")
	for b, ok := it.Next(); ok; b, ok = it.Next() {
		keys += b.keys.Len()
		if k.sound[b] {
			continue
		}
		if b.keys.Len() == 0 {
			return fmt.Errorf("value %q is there without a key", b.value)
		}
		if err := k.keys.Check(b.keys); err != nil {
			return fmt.Errorf("keys with %q: %w", b.value, err)
		}
		k.sound[b] = true
	}
	if keys != want {
		return fmt.Errorf("%d keys for %d objects", keys, want)
	}
	return nil
}

// notes compares what is noted of every object with the object: its place in the tree, its digest, and its values in the indexes.
func (k *contentChecker) notes(s *state) error {
	it := s.objects.Seek("")
	for v, ok := it.Next(); ok; v, ok = it.Next() {
		switch {
		case !strings.HasPrefix(v.Key(), k.cache.res.Prefix):
			return fmt.Errorf("%s belongs to another resource", v.Key())
		case v.Type() != k.cache.res.Type:
			return fmt.Errorf("%s is of another type", v.Key())
		case v.Revision() > s.rev:
			return fmt.Errorf("%s has the later revision %d", v.Key(), v.Revision())
		case v.labels != k.cache.server.digester.of(v.Version):
			return fmt.Errorf("%s has other labels than its digest", v.Key())
		}
		for i, label := range k.cache.res.Indexes {
			value, _ := v.Field(label)
			if _, ok := s.lookup(i, value).Get(v.Key()); !ok {
				return fmt.Errorf("%s with %s=%q is not in the index", v.Key(), label, value)
			}
		}
	}
	return nil
}

// same returns an error when two states differ in what readers see.
func same(got, want *state) error {
	if got.objects.Len() != want.objects.Len() {
		return fmt.Errorf("%d objects, want %d", got.objects.Len(), want.objects.Len())
	}
	a, b := got.objects.Seek(""), want.objects.Seek("")
	for v, ok := a.Next(); ok; v, ok = a.Next() {
		if w, _ := b.Next(); v != w {
			return fmt.Errorf("%s at %d, want %s at %d", v.Key(), v.Revision(), w.Key(), w.Revision())
		}
	}
	for i := range got.indexes {
		a, b := got.indexes[i].Seek(""), want.indexes[i].Seek("")
		for v, ok := a.Next(); ok; v, ok = a.Next() {
			w, ok := b.Next()
			if !ok || v.value != w.value {
				return fmt.Errorf("index %d has the value %q", i, v.value)
			}
			if err := sameKeys(v.keys, w.keys); err != nil {
				return fmt.Errorf("index %d, value %q: %w", i, v.value, err)
			}
		}
		if w, ok := b.Next(); ok {
			return fmt.Errorf("index %d lacks the value %q", i, w.value)
		}
	}
	if len(got.broken) != len(want.broken) {
		return fmt.Errorf("%d objects that cannot be read, want %d", len(got.broken), len(want.broken))
	}
	for key := range got.broken {
		if want.broken[key] == nil {
			return fmt.Errorf("%s cannot be read", key)
		}
	}
	return nil
}

func sameKeys(got, want tree.Tree[objectKey]) error {
	if got == want {
		return nil
	}
	if got.Len() != want.Len() {
		return fmt.Errorf("%d keys, want %d", got.Len(), want.Len())
	}
	a, b := got.Seek(""), want.Seek("")
	for v, ok := a.Next(); ok; v, ok = a.Next() {
		if w, _ := b.Next(); v != w {
			return fmt.Errorf("%s, want %s", v, w)
		}
	}
	return nil
}
