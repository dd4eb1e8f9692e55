package apiserver

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/admission"
	"vigil/kinds"
	"vigil/watchcache"
)

// Serve changes what is served while the server runs: from one moment to the next, requests find the rows of add in place of those of remove. It
// returns when that has happened. Until the caches of new rows are loaded everything stays as it is; so what discovery shows can be used at once.
//
// Requests that have begun are answered by what was served then. Watches of a stored row that goes return what has happened so far, and end; so
// do reads of it, with 404. Objects stay in the store: whoever takes a kind away deletes them before, and waits until the cache is empty.
// A row that comes for one that goes, with the same place, type and indexes, takes its cache over, and its watches go on. Views go with the row
// that they show.
//
// A row that may have to be encrypted in the store has the place GROUP/RESOURCE. Serve fails when the table cannot be changed so, or when ctx ends before the
// caches are loaded; then nothing has changed.
func (s *Server) Serve(ctx context.Context, remove, add []*kinds.Kind) error {
	select {
	case s.changing <- struct{}{}:
		defer func() { <-s.changing }()
	case <-ctx.Done():
		return fmt.Errorf("change what is served: %w", context.Cause(ctx))
	}
	old := s.served.Load()
	table, err := old.table.Change(remove, add)
	if err != nil {
		return fmt.Errorf("change what is served: %w", err)
	}
	stored, fresh := old.keep(table)
	made := s.makeCaches(fresh)
	for k, one := range made {
		stored[k] = one
		if err := one.Cache().WaitLoaded(ctx); err != nil {
			for _, one := range made {
				s.caches.Remove(one.Cache())
			}
			return fmt.Errorf("change what is served: %w", err)
		}
	}
	next := s.newServed(table, stored, old)
	s.served.Store(next)
	s.retire(old, next)
	return nil
}

// keep finds out which stored rows of a table go on with a cache of v, and which need one.
func (v *served) keep(table *kinds.Table) (stored map[*kinds.Kind]*admission.Stored, fresh []*kinds.Kind) {
	stored = map[*kinds.Kind]*admission.Stored{}
	for _, k := range table.All() {
		if k.Unstored || k.View != nil {
			continue
		}
		before := v.stored[k.GroupResource()]
		switch same := v.byKind[k]; {
		case same != nil:
			stored[k] = same.stored
		case before == nil:
			fresh = append(fresh, k)
		case before.Kind.Path == k.Path && before.Kind.Type == k.Type && slices.Equal(before.Kind.Indexes, k.Indexes):
			stored[k] = before.stored.As(k)
		default:
			fresh = append(fresh, k)
		}
	}
	return stored, fresh
}

// retire ends what old has and next has not: caches, with their watches, and metrics.
func (s *Server) retire(old, next *served) {
	kept := map[*watchcache.Cache]bool{}
	for _, rt := range next.byKind {
		kept[rt.Cache] = true
	}
	for _, rt := range old.byKind {
		if rt.Cache != nil && rt.Kind.View == nil && !kept[rt.Cache] {
			s.caches.Remove(rt.Cache)
		}
	}
	served := map[schema.GroupResource]bool{}
	for _, rt := range next.routes {
		served[rt.Kind.GroupResource()] = true
	}
	for key, rt := range old.routes {
		if next.routes[key] != nil {
			continue
		}
		rt.Metrics.Forget(!served[rt.Kind.GroupResource()])
		for _, sub := range rt.subs {
			sub.metrics.Forget(false)
		}
		for _, m := range rt.connections {
			m.Forget(false)
		}
	}
}
