package watchcache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"vigil/object"
	"vigil/store"
)

// loadAll reads all caches at one revision, some way back, so that the feed from there fills the windows: watches
// from before a restart then resume. The server is ready when the feed has come to what is the newest revision now.
func (s *Server) loadAll(ctx context.Context) error {
	start := time.Now()
	newest, err := s.store.Revision(ctx)
	if err != nil {
		return err
	}
	rev, err := s.historyStart(ctx, newest)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.running = true
	caches := append([]*Cache(nil), s.caches...)
	s.mu.Unlock()
	states, err := s.readStates(ctx, caches, rev)
	if err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	objects := 0
	for i, c := range caches {
		c.pending, c.late = nil, false
		c.load(states[i])
		objects += states[i].objects.Len()
	}
	s.past = []mark{{s.tuning.now(), rev}}
	s.target = newest
	s.publish(rev)
	for _, c := range caches {
		c.wake()
	}
	s.metrics.loads.Inc()
	s.logger.Info("loaded the watch caches", "revision", rev, "newest", newest, "resources", len(caches), "objects", objects,
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

// readStates reads the caches' contents at revision rev.
func (s *Server) readStates(ctx context.Context, caches []*Cache, rev int64) ([]*state, error) {
	states := make([]*state, len(caches))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for i, c := range caches {
		g.Go(func() (err error) {
			states[i], err = s.readState(ctx, c, rev)
			return err
		})
	}
	return states, g.Wait()
}

// readState reads one cache's content. The next page is on its way while the objects of the last are made.
func (s *Server) readState(ctx context.Context, c *Cache, rev int64) (*state, error) {
	var pages [][]*object.Version
	var mu sync.Mutex // guards broken
	var broken map[string]error
	var makers errgroup.Group
	makers.SetLimit(runtime.GOMAXPROCS(0))
	opts := store.ListOptions{Rev: rev, Limit: s.tuning.pageSize}
	for {
		res, err := s.store.List(ctx, c.res.Prefix, opts)
		if err != nil {
			_ = makers.Wait() // never fails
			return nil, fmt.Errorf("load %s at revision %d: %w", c.res.Name, rev, err)
		}
		page := make([]*object.Version, len(res.KVs))
		pages = append(pages, page)
		makers.Go(func() error {
			for i, kv := range res.KVs {
				v, err := object.NewVersion(c.res.Type, kv.Key, kv.ModRev, kv.Value)
				if err != nil {
					c.logger.Error("stored object cannot be read", "key", kv.Key, "revision", kv.ModRev, "err", err)
					c.metrics.broken.Inc()
					mu.Lock()
					if broken == nil {
						broken = map[string]error{}
					}
					broken[kv.Key] = err
					mu.Unlock()
				}
				page[i] = v
			}
			return nil
		})
		if !res.More || len(res.KVs) == 0 {
			break
		}
		opts.From = res.KVs[len(res.KVs)-1].Key + "\x00"
	}
	_ = makers.Wait() // never fails
	return buildState(rev, s.mine(c, pages), broken, c.res.Indexes), nil
}

// mine puts pages together, without broken objects and those of a resource with a longer prefix.
func (s *Server) mine(c *Cache, pages [][]*object.Version) []*object.Version {
	s.mu.Lock()
	nested := s.routes.nested
	s.mu.Unlock()
	total := 0
	for _, page := range pages {
		total += len(page)
	}
	all := make([]*object.Version, 0, total)
	for _, page := range pages {
		for _, v := range page {
			if v != nil && (!nested || s.routed(c, v.Key())) {
				all = append(all, v)
			}
		}
	}
	return all
}

// routed reports whether c is a cache of key.
func (s *Server) routed(c *Cache, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.routes.find(key) {
		if other == c {
			return true
		}
	}
	return false
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
				s.logger.Error("cannot load a watch cache, will try again", "resource", c.res.Name, "err", err)
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
	loaded, err := s.readState(ctx, c, rev)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.late {
		return nil // loaded with all others meanwhile
	}
	c.late = false
	c.load(loaded)
	if len(c.pending) > 0 {
		c.apply()
	}
	c.wake()
	return nil
}
