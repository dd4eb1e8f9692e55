package watchcache

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"vigil/object"
	"vigil/store"
	"vigil/watchcache/internal/tree"
)

// Cache holds one resource: its objects, its history within the window, and its watchers.
//
// The feed's goroutine is the only writer. Readers take no lock: the newest state is behind an atomic pointer, and
// cursors follow atomic links. mu is for those who look for a place in the log: a watch that starts or ends, a read at
// a past revision.
type Cache struct {
	server  *Server
	res     Resource
	metrics cacheMetrics // set by Server.Add
	logger  *slog.Logger

	current  atomic.Pointer[state] // nil until loaded, and when removed; set with log
	replaced atomic.Int64          // see Replaced
	removed  atomic.Bool           // by Server.Remove; set before current and log are cleared
	loaded   chan struct{}         // closed when current is first set
	loadOnce sync.Once

	// Only for the feed's goroutine, under Server.mu.
	pending []store.Event // of the batch under way; while late, of all batches since Add
	late    bool          // added to a running server and not loaded yet
	editor  *stateEditor  // on top of current
	events  []*event      // scratch
	marks   []mark        // scratch
	waking  []*branch     // with events that their cursors have not been told about

	mu  sync.Mutex // may be taken while Server.mu is held; branch.mu may be taken while it is held
	log *eventLog  // nil until loaded, and when removed
}

// Resource returns what the cache holds.
func (c *Cache) Resource() Resource { return c.res }

// absent is the error about content that is not there: not yet, or not any more.
func (c *Cache) absent() error {
	if c.removed.Load() {
		return ErrRemoved
	}
	return ErrNotReady
}

// WaitLoaded blocks until the cache has been loaded, or fails with the cause of ctx's end. For the caches that were added
// before Run, Server.WaitReady is the better question.
func (c *Cache) WaitLoaded(ctx context.Context) error {
	select {
	case <-c.loaded:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the watch cache of %s: %w", c.res.Name, context.Cause(ctx))
	}
}

// Get returns the newest known object at a full etcd key. When it reports false, Snapshot().Broken says whether
// there is one that cannot be read.
func (c *Cache) Get(key string) (v *object.Version, ok bool) {
	s := c.current.Load()
	if s == nil {
		return nil, false
	}
	return s.get(key)
}

// Replaced is the size in bytes of all objects that have been replaced or deleted so far: what a snapshot keeps in memory beside the
// cache is no more than has been added since it was taken.
func (c *Cache) Replaced() int64 { return c.replaced.Load() }

// Len returns the number of objects.
func (c *Cache) Len() int {
	s := c.current.Load()
	if s == nil {
		return 0
	}
	return s.objects.Len()
}

// Snapshot returns the newest content, at the revision that the feed has reached. Before the cache is loaded it is
// empty, at revision 0.
func (c *Cache) Snapshot() *Snapshot {
	published := c.server.rev.Load() // before the state: all up to it is in the state by then
	s := c.current.Load()
	if s == nil {
		return &Snapshot{cache: c, state: &state{indexes: make([]tree.Tree[*bucket], len(c.res.Indexes))}}
	}
	return &Snapshot{cache: c, state: s, rev: max(published, s.rev)}
}

// SnapshotAt returns the content at exactly revision rev. It fails with ErrExpired when rev has left the window and with
// ErrAhead when the feed has not reached it.
func (c *Cache) SnapshotAt(rev int64) (*Snapshot, error) {
	newest := c.Snapshot()
	switch {
	case newest.rev == 0:
		return nil, c.absent()
	case rev > newest.rev:
		return nil, &AheadError{Requested: rev, Current: newest.rev}
	case rev == newest.rev:
		return newest, nil
	}
	if horizon := c.server.horizon.Load(); rev < horizon {
		return nil, &ExpiredError{Requested: rev, Oldest: horizon}
	}
	if rev >= newest.state.rev {
		return &Snapshot{cache: c, state: newest.state, rev: rev}, nil
	}
	c.mu.Lock()
	if c.log == nil {
		c.mu.Unlock()
		return nil, c.absent()
	}
	if oldest := c.log.oldest; rev < oldest {
		c.mu.Unlock()
		return nil, &ExpiredError{Requested: rev, Oldest: oldest}
	}
	in := c.log.chunkAt(rev)
	base, marks := in.state, in.marks
	c.mu.Unlock()
	if memo := in.memo.Load(); memo != nil && memo.rev <= rev {
		base = memo
	}
	s, err := c.replay(in, base, marks, rev)
	if err != nil {
		return nil, err
	}
	return &Snapshot{cache: c, state: s, rev: rev}, nil
}

// replay applies the events and marks of a chunk between base and rev, inclusive.
func (c *Cache) replay(in *chunk, base *state, marks []mark, rev int64) (*state, error) {
	r := replay{e: base.edit(c.res.Indexes), after: base.rev, marks: marks}
	for at := in.before.next.Load(); at != nil && (at == outOfWindow || at.ev.rev <= rev); at = at.next.Load() {
		if at == outOfWindow {
			return nil, &ExpiredError{Requested: rev, Oldest: c.oldest()}
		}
		r.event(at.ev)
	}
	r.marksTo(rev)
	e := r.e
	if e.rev == base.rev {
		return base, nil
	}
	s := e.state()
	in.memo.Store(s)
	return s, nil
}

// replay makes later states from an earlier one.
type replay struct {
	e     *stateEditor
	after int64  // what has happened up to here is in the state already
	marks []mark // to come, by revision
}

// event applies ev and the marks before it.
func (r *replay) event(ev *event) {
	r.marksTo(ev.rev)
	switch {
	case ev.rev <= r.after:
	case ev.cur.Version != nil:
		r.e.set(ev.cur)
	default:
		r.e.delete(ev.key(), ev.rev)
	}
}

// marksTo applies the marks up to rev, inclusive.
func (r *replay) marksTo(rev int64) {
	for ; len(r.marks) > 0 && r.marks[0].rev <= rev; r.marks = r.marks[1:] {
		if r.marks[0].rev > r.after {
			r.e.apply(r.marks[0])
		}
	}
}

// oldest is the least revision a watch can start after.
func (c *Cache) oldest() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return 0
	}
	return c.log.oldest
}

// load makes s the content and begins a new window behind it. Cursors of the old window end with ErrExpired.
func (c *Cache) load(s *state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log != nil {
		c.log.end()
		c.waking = c.log.takeTouched(c.waking)
	}
	t := c.server.tuning
	c.log = newEventLog(c.server.cfg.Window, c.res.MinEvents, t.chunkEvents, c.res.Indexes, s)
	c.editor = s.edit(c.res.Indexes)
	c.current.Store(s)
	c.loadOnce.Do(func() { close(c.loaded) })
	c.metrics.loads.Inc()
	c.metrics.capacity.Set(float64(c.log.bounds.MaxEvents))
}

// unload ends all cursors and forgets the content.
func (c *Cache) unload() {
	c.mu.Lock()
	c.removed.Store(true)
	c.late, c.pending, c.editor = false, nil, nil
	if c.log != nil {
		c.log.end()
		c.waking = c.log.takeTouched(c.waking)
		c.log = nil
	}
	c.current.Store(nil)
	c.mu.Unlock()
	c.wakeTouched()
}

// apply takes the pending events of a batch in: first a new state, then the events on their branches.
func (c *Cache) apply() {
	base := c.current.Load()
	c.events, c.marks = c.events[:0], c.marks[:0]
	for i := range c.pending {
		if c.pending[i].ModRev <= base.rev {
			continue // part of the load already
		}
		if ev := c.change(&c.pending[i]); ev != nil {
			c.events = append(c.events, ev)
		}
	}
	c.metrics.received.Add(float64(len(c.pending)))
	clear(c.pending)
	c.pending = c.pending[:0]
	next := c.editor.state()
	now := c.server.tuning.now()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.log.begin(base)
	c.current.Store(next)
	for _, m := range c.marks {
		c.log.mark(m, now)
	}
	for _, ev := range c.events {
		c.log.append(ev, now)
		if ev.old.Version != nil {
			c.replaced.Add(int64(ev.old.SizeBytes()))
		}
	}
	c.metrics.dispatched.Add(float64(len(c.events)))
	clear(c.events)
	clear(c.marks)
	c.log.trim(now, next)
}

// change edits one event of the feed into the state. It returns nil when watchers have nothing to see: the new bytes
// cannot be read, or an object goes that never could be. Then it leaves a mark, if that is news.
func (c *Cache) change(e *store.Event) *event {
	if e.Value == nil {
		broken := c.editor.isBroken(e.Key)
		old := c.editor.delete(e.Key, e.ModRev)
		if old.Version == nil {
			if broken {
				c.marks = append(c.marks, mark{key: e.Key, rev: e.ModRev})
			}
			return nil
		}
		return &event{rev: e.ModRev, old: old}
	}
	key := e.Key
	if old, ok := c.editor.objects.Get(key); ok {
		key = old.Key() // one string for all versions
	}
	v := c.server.written.take(c.res.Type, e)
	if v == nil {
		var err error
		if v, err = newVersion(c.res.Type, key, e.ModRev, e.Value, e.Err); err != nil {
			c.brokenObject(e.Key, e.ModRev, err)
			m := mark{key, e.ModRev, err}
			if !c.editor.isBroken(key) {
				c.marks = append(c.marks, m)
			}
			c.editor.apply(m)
			return nil
		}
	}
	cur := item{v, c.server.digester.of(v)}
	return &event{rev: e.ModRev, old: c.editor.set(cur), cur: cur}
}

// newVersion makes a version of what the store delivered, which sealed says could not be decrypted.
func newVersion(t *object.Type, key string, rev int64, value []byte, sealed error) (*object.Version, error) {
	if sealed != nil {
		return nil, sealed
	}
	return object.NewVersion(t, key, rev, value)
}

// wake tells the cursors that wait on the branches of the last batch. The server calls it after publishing the revision.
func (c *Cache) wake() {
	c.mu.Lock()
	c.waking = c.log.takeTouched(c.waking)
	c.mu.Unlock()
	c.wakeTouched()
}

func (c *Cache) wakeTouched() {
	for _, b := range c.waking {
		b.wake()
	}
	clear(c.waking)
	c.waking = c.waking[:0]
}

func (c *Cache) brokenObject(key string, rev int64, err error) {
	c.logger.Error("a stored object cannot be decoded; lists and watches leave it out: delete it with ignoreStoreReadErrorWithClusterBreakingPotential, or mend it in etcd", "key", key, "revision", rev, "error", err)
	c.metrics.broken.Inc()
}
