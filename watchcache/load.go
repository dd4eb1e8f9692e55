package watchcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"vigil/store"
)

// loadAll reads all caches at revision rev, some way back, so that the feed from there fills the windows: watches
// from before a restart then resume. The server is ready when the feed has come to newest.
func (s *Server) loadAll(ctx context.Context, rev, newest int64) error {
	start := time.Now()
	s.mu.Lock()
	s.running = true
	caches := append([]*Cache(nil), s.caches...)
	s.mu.Unlock()
	states, err := s.read(ctx, caches, s.store.Prefix(), rev)
	if err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	objects := 0
	for _, c := range caches {
		if c.removed.Load() {
			continue
		}
		c.pending, c.late = nil, false
		c.load(states[c])
		objects += c.Len()
	}
	s.past = []moment{{s.tuning.now(), rev}}
	s.target = newest
	s.publish(rev)
	for _, c := range caches {
		if !c.removed.Load() {
			c.wake()
		}
	}
	s.logger.Info("the watch caches are loaded", "revision", rev, "newest", newest, "resources", len(caches), "objects", objects,
		"took", time.Since(start))
	return nil
}

// historyStart returns the oldest revision that the store can still read, but none further back than Backlog.
func (s *Server) historyStart(ctx context.Context, newest int64) (int64, error) {
	readable := func(rev int64) (bool, error) {
		_, err := s.store.List(ctx, s.store.Prefix(), store.ListOptions{Rev: rev, Limit: 1})
		if errors.Is(err, store.ErrCompacted) {
			return false, nil
		}
		return err == nil, err
	}
	low, high := max(1, newest-s.cfg.Backlog), newest // high can be read; only the first probe is at low itself
	for probe := low; low < high; probe = (low + high) / 2 {
		ok, err := readable(probe)
		switch {
		case err != nil:
			return 0, fmt.Errorf("look for the start of history: %w", err)
		case ok:
			high = probe
		default:
			low = probe + 1
		}
	}
	return high, nil
}

// run is a stretch of one cache's objects in key order.
type run []item

// reading collects what a load finds, from several goroutines.
type reading struct {
	routes routes // a copy of the server's, which changes
	wanted map[*Cache]bool

	mu     sync.Mutex
	runs   map[*Cache][]run
	broken map[*Cache]map[string]error
}

// read reads the contents of caches, which are all those of keys under prefix, at revision rev.
func (s *Server) read(ctx context.Context, caches []*Cache, prefix string, rev int64) (map[*Cache]*state, error) {
	r := &reading{wanted: map[*Cache]bool{}, runs: map[*Cache][]run{}, broken: map[*Cache]map[string]error{}}
	s.mu.Lock()
	r.routes = s.routes.clone()
	s.mu.Unlock()
	for _, c := range caches {
		r.wanted[c] = true
	}
	if _, err := s.store.LoadAll(ctx, prefix, rev, func(kvs []store.KV) error {
		r.take(kvs)
		return ctx.Err()
	}); err != nil {
		return nil, fmt.Errorf("load %s at revision %d: %w", prefix, rev, err)
	}
	states := make(map[*Cache]*state, len(caches))
	for _, c := range caches {
		runs := r.runs[c]
		slices.SortFunc(runs, func(a, b run) int { return strings.Compare(a[0].Key(), b[0].Key()) })
		states[c] = buildState(rev, slices.Concat(runs...), r.broken[c], c.res.Indexes)
	}
	return states, nil
}

// take makes the objects of a stretch of keys and values.
func (r *reading) take(kvs []store.KV) {
	routes := r.routes
	runs := map[*Cache]run{}
	for _, kv := range kvs {
		for _, c := range routes.find(kv.Key) {
			if !r.wanted[c] { // a late load reads one of many
				continue
			}
			v, err := newVersion(c.res.Type, kv.Key, kv.ModRev, kv.Value, kv.Err)
			if err != nil {
				c.brokenObject(kv.Key, kv.ModRev, err)
				r.breaks(c, kv.Key, err)
				continue
			}
			runs[c] = append(runs[c], item{v, c.server.digester.of(v)})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, run := range runs {
		r.runs[c] = append(r.runs[c], run)
	}
}

func (r *reading) breaks(c *Cache, key string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken[c] == nil {
		r.broken[c] = map[string]error{}
	}
	r.broken[c][key] = err
}

// loadLate loads the caches that are added to the running server. The feed collects their events meanwhile.
func (s *Server) loadLate(ctx context.Context) error {
	for pause := newBackoff(); ; {
		select {
		case <-s.added:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for c := s.nextLate(); c != nil; c = s.nextLate() {
			if err := s.loadOne(ctx, c); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				s.logger.Error("a watch cache could not be loaded; that is tried again, and its resource is not served until then", "resource", c.res.Name, "error", err)
				if err := pause.wait(ctx); err != nil {
					return err
				}
				continue
			}
			pause.reset()
		}
	}
}

func (s *Server) nextLate() *Cache {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.caches {
		if c.late {
			return c
		}
	}
	return nil
}

// loadOne loads a late cache at the newest revision. All later events of it have been collected, because its route
// was there before.
func (s *Server) loadOne(ctx context.Context, c *Cache) error {
	rev, err := s.store.Revision(ctx)
	if err != nil {
		return err
	}
	states, err := s.read(ctx, []*Cache{c}, c.res.Prefix, rev)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.late {
		return nil // loaded with all others meanwhile, or removed
	}
	c.late = false
	c.load(states[c])
	if len(c.pending) > 0 {
		c.apply()
	}
	c.wake()
	return nil
}
