package watchcache

import (
	"vigil/object"
	"vigil/watchcache/internal/tree"
)

// Snapshot is a cache's content as of one revision. It never changes, may be read by many goroutines without a lock,
// and keeps that content in memory as long as it is referred to.
type Snapshot struct {
	cache *Cache
	state *state
	rev   int64
}

// Page is a part of a list, in key order. The objects are shared with all readers.
type Page struct {
	Items []*object.Version
	// Next is the start of the next page for the same selection, "" at the end: what follows the last item's key,
	// relative to the listed prefix ("default/web-1\x00", within a namespace "web-1\x00"), as in a continue token.
	Next string
	// Remaining is the number of objects behind the page, -1 when the selection has labels or fields: then
	// it is not known.
	Remaining int64
}

// Revision returns the revision that the snapshot shows: the resource version of a list made of it.
func (s *Snapshot) Revision() int64 { return s.rev }

// Len returns the number of objects.
func (s *Snapshot) Len() int { return s.state.objects.Len() }

// Get returns the object at a full etcd key. When it reports false, Broken says whether there is one that cannot be read.
func (s *Snapshot) Get(key string) (v *object.Version, ok bool) { return s.state.get(key) }

// Broken returns an ErrBroken when the bytes stored at key cannot be read, and nil otherwise.
func (s *Snapshot) Broken(key string) error {
	return s.state.brokenIn(func(broken string) bool { return broken == key })
}

// List returns the selected objects from the key suffix from (relative to the listed prefix, inclusive, "" is the
// start), at most limit unless that is 0. A page is filled up to limit with selected objects, and Next is set only when
// there is another one. It fails with ErrBroken when the stored bytes of an object that may be selected cannot be
// read: to leave it out would tell the client that it is gone.
func (s *Snapshot) List(sel Selection, from string, limit int) (Page, error) {
	p := s.cache.plan(sel)
	if err := s.state.brokenIn(p.covers); err != nil {
		return Page{}, err
	}
	w := s.state.walk(p, p.prefix+from)
	page := Page{Remaining: -1}
	left := -1
	if !p.filtered && p.key == "" {
		left = w.left
	}
	if p.trivial {
		size := w.left
		if limit > 0 {
			size = min(size, limit)
		}
		page.Items = make([]*object.Version, 0, size)
	}
	for {
		v, ok := w.next()
		if !ok {
			page.Remaining = min(int64(left), 0)
			return page, nil
		}
		if limit > 0 && len(page.Items) == limit {
			page.Next = page.Items[limit-1].Key()[len(p.prefix):] + "\x00"
			if left >= 0 {
				page.Remaining = int64(left - limit)
			}
			return page, nil
		}
		v, err := p.show(v)
		if err != nil {
			return Page{}, err
		}
		page.Items = append(page.Items, v)
	}
}

// walker finds the selected objects of a state in key order.
type walker struct {
	state   *state
	plan    *plan
	left    int // objects where the plan leads, from the position on
	objects tree.Iter[item]
	keys    tree.Iter[objectKey] // of the index, when the plan uses one
}

// walk begins at the first key that is not less than from, which must not be less than the plan's prefix.
func (s *state) walk(p *plan, from string) *walker {
	w := &walker{state: s, plan: p}
	switch end := prefixEnd(p.prefix); {
	case p.empty:
	case p.key != "":
		if p.key >= from {
			w.left = 1
		}
	case p.index >= 0:
		keys := s.lookup(p.index, p.value)
		w.left = max(0, keys.Rank(end)-keys.Rank(from))
		w.keys = keys.Seek(from)
	default:
		w.left = max(0, s.objects.Rank(end)-s.objects.Rank(from))
		w.objects = s.objects.Seek(from)
	}
	return w
}

// prefixEnd is the first key behind all that start with prefix, which ends in a slash.
func prefixEnd(prefix string) string { return prefix[:len(prefix)-1] + "0" }

func (w *walker) next() (*object.Version, bool) {
	for w.left > 0 {
		w.left--
		if v, ok := w.step(); ok && (w.plan.trivial || w.plan.tries(v)) {
			return v.Version, true
		}
	}
	return nil, false
}

// step returns the next object where the plan leads. Only the one of a plan for a key may be missing. It panics when another is: a
// shorter list would tell the client that objects are gone.
func (w *walker) step() (v item, ok bool) {
	switch {
	case w.plan.key != "":
		return w.state.objects.Get(w.plan.key)
	case w.plan.index >= 0:
		if key, more := w.keys.Next(); more {
			v, ok = w.state.objects.Get(string(key))
		}
	default:
		v, ok = w.objects.Next()
	}
	if !ok {
		panic("watchcache: fewer objects than are counted")
	}
	return v, true
}
