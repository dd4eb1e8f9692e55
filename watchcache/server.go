package watchcache

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"vigil/store"
)

// Server is all caches of one API server. One feed of the store serves them all, in revision order, so there is one
// notion of "complete up to revision R" for the whole server.
type Server struct {
	store    Store
	cfg      Config
	tuning   tuning
	logger   *slog.Logger
	metrics  *serverMetrics
	digester digester

	rev     atomic.Int64 // all caches are complete up to it
	horizon atomic.Int64 // exact reads below it are refused: it is older than Window.Age
	fresh   freshness
	written written

	ready     atomic.Bool
	readyOnce sync.Once
	readyCh   chan struct{} // closed with ready

	added chan struct{} // capacity 1: Run has to load caches that are late

	// mu is held while a batch is applied. Cache.mu and branch.mu may be taken while it is held, in this order.
	mu      sync.Mutex
	caches  []*Cache
	routes  routes
	running bool     // a load has taken the list of caches
	target  int64    // the revision at which the server becomes ready
	hit     []*Cache // scratch: caches with events in the batch under way
	past    []moment // revisions by time, for horizon
}

// moment remembers how far the feed was at a time.
type moment struct {
	at  time.Time
	rev int64
}

// NewServer makes a server without caches. It starts nothing.
func NewServer(st Store, cfg Config) *Server { return newServer(st, cfg, defaultTuning) }

func newServer(st Store, cfg Config, t tuning) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		store:    st,
		cfg:      cfg,
		tuning:   t,
		logger:   cfg.Logger,
		metrics:  newMetrics(cfg.Registerer),
		digester: digester{maphash.MakeSeed()},
		readyCh:  make(chan struct{}),
		added:    make(chan struct{}, 1),
		routes:   routes{base: len(st.Prefix())},
	}
	register(cfg.Registerer, prometheus.Collector(revisions{s}))
	return s
}

// Add makes the cache of a resource. Before Run it is loaded with all others; later it is loaded on its own, and
// answers ErrNotReady until then.
func (s *Server) Add(r Resource) *Cache {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Cache{
		server: s,
		res:    r,
		logger: s.logger.With("resource", r.Name),
		loaded: make(chan struct{}),
		late:   s.running,
	}
	c.metrics = s.metrics.of(c)
	s.caches = append(s.caches, c)
	s.routes.add(c)
	if c.late {
		select {
		case s.added <- struct{}{}:
		default:
		}
	}
	return c
}

// Remove takes a cache out of service. Its cursors return what has happened so far and end with ErrRemoved, and so do reads and new watches.
func (s *Server) Remove(c *Cache) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caches = slices.DeleteFunc(s.caches, func(other *Cache) bool { return other == c })
	s.routes.remove(c)
	c.unload()
	if !slices.ContainsFunc(s.caches, func(other *Cache) bool { return other.res.Name == c.res.Name }) {
		s.metrics.forget(c.res)
	}
}

// Run loads the caches and keeps them fed until ctx ends, whose cause it returns. It survives an unreachable store and
// lost history: after that it loads everything again, and the cursors of before end with ErrExpired.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.follow(ctx) })
	g.Go(func() error { return s.loadLate(ctx) })
	g.Go(func() error { return s.sweepAll(ctx) })
	return g.Wait()
}

// tellEvery is how often an operator is told that the store still cannot be reached.
const tellEvery = 30 * time.Second

// follow loads and feeds.
func (s *Server) follow(ctx context.Context) error {
	var told time.Time // when an error was last logged
	for pause := newBackoff(); ; {
		err := s.loadAndFeed(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			pause.reset()
			told = time.Time{}
			continue
		}
		if now := s.tuning.now(); now.Sub(told) >= tellEvery {
			told = now
			s.logger.Error("the watch caches could not be loaded; that is tried again, and /readyz fails until they are", "error", err)
		}
		if err := pause.wait(ctx); err != nil {
			return err
		}
	}
}

// loadAndFeed loads the caches and feeds them until history has been lost, which is not an error, or ctx ends. The feed is
// opened before the load, so that etcd looks for history meanwhile.
func (s *Server) loadAndFeed(ctx context.Context) error {
	newest, err := s.store.Revision(ctx)
	if err != nil {
		return err
	}
	from, err := s.historyStart(ctx, newest)
	if err != nil {
		return err
	}
	loaded := make(chan struct{})
	feeding, stop := context.WithCancel(ctx)
	defer stop()
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		s.feed(feeding, from, loaded)
	}()
	if err = s.loadAll(ctx, from, newest); err == nil {
		close(loaded)
	} else {
		stop()
	}
	<-fed
	return err
}

// feed applies what happened after revision after, once loaded is closed. It returns when history has been lost or ctx ends.
func (s *Server) feed(ctx context.Context, after int64, loaded <-chan struct{}) {
	pause := newBackoff()
	for {
		err := s.store.Feed(ctx, after, func(b store.Batch) error {
			select {
			case <-loaded:
			case <-ctx.Done():
				return ctx.Err()
			}
			pause.reset()
			s.apply(b)
			after = max(after, b.Rev)
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrCompacted):
			s.logger.Warn("etcd has compacted what the watch caches missed; they are loaded again", "revision", after)
			return
		}
		s.logger.Error("the feed of the watch caches ended; it is started again, and the caches are behind until then", "revision", after, "error", err)
		if pause.wait(ctx) != nil {
			return
		}
	}
}

// apply takes one batch in: the contents of all caches first, then the revision, then whoever waits for either.
func (s *Server) apply(b store.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.Events {
		for _, c := range s.routes.find(b.Events[i].Key) {
			if len(c.pending) == 0 {
				s.hit = append(s.hit, c)
			}
			c.pending = append(c.pending, b.Events[i])
		}
	}
	for _, c := range s.hit {
		if !c.late {
			c.apply()
		}
	}
	if b.Rev > s.rev.Load() {
		s.publish(b.Rev)
	}
	for _, c := range s.hit {
		if !c.late {
			c.wake()
		}
	}
	clear(s.hit)
	s.hit = s.hit[:0]
}

// publish says that all caches are complete up to rev.
func (s *Server) publish(rev int64) {
	s.rev.Store(rev)
	s.fresh.arrived(rev)
	if rev >= s.target {
		s.setReady()
	}
}

// Ready reports whether the caches have been loaded and have reached the revision that the store had when that began.
func (s *Server) Ready() bool { return s.ready.Load() }

// WaitReady blocks until Ready, or fails with the cause of ctx's end.
func (s *Server) WaitReady(ctx context.Context) error {
	select {
	case <-s.readyCh:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the watch caches: %w", context.Cause(ctx))
	}
}

func (s *Server) setReady() {
	s.readyOnce.Do(func() {
		s.ready.Store(true)
		close(s.readyCh)
	})
}

// backoff paces attempts from 50 ms to 5 s.
type backoff struct{ next time.Duration }

func newBackoff() *backoff { return &backoff{50 * time.Millisecond} }

func (b *backoff) reset() { *b = *newBackoff() }

func (b *backoff) wait(ctx context.Context) error {
	t := time.NewTimer(b.next)
	defer t.Stop()
	b.next = min(2*b.next, 5*time.Second)
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
