package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"vigil/informer/internal/wire"
)

// Informer keeps a copy of one resource's objects and tells handlers what changes. It makes one list and one watch, however
// many handlers and listers use it. Factories make informers.
type Informer struct {
	resource  Resource
	indexer   *Indexer
	reflector *reflector
	metrics   *resourceMetrics
	logger    *slog.Logger // says which resource; nil: nothing is logged

	synced   chan struct{} // closed when the first list is in the indexer
	syncOnce sync.Once

	// mu makes one thing of a change to the indexer and to the queues of all handlers. It is taken before the indexer's
	// and the queues' own locks.
	mu       sync.Mutex
	handlers map[*Registration]struct{}
	start    func(*Registration) // starts a handler's goroutine; nil while the informer does not run
	ran      bool

	// Used by the reflector's goroutine only.
	scratch []byte // a key that is being made
	dirty   bool   // handlers have something new and have not been woken
}

func newInformer(res Resource) *Informer {
	res = res.withDefaults()
	return &Informer{
		resource: res,
		indexer:  newIndexer(map[string]IndexFunc{NamespaceIndex: byNamespace}),
		synced:   make(chan struct{}),
		handlers: map[*Registration]struct{}{},
	}
}

// Resource returns what the informer follows.
func (i *Informer) Resource() Resource { return i.resource }

// Indexer returns the objects.
func (i *Informer) Indexer() *Indexer { return i.indexer }

// HasSynced says that the first list is in the indexer. Handlers may not have been told yet: see Registration.HasSynced.
func (i *Informer) HasSynced() bool {
	select {
	case <-i.synced:
		return true
	default:
		return false
	}
}

// Synced is closed when HasSynced becomes true.
func (i *Informer) Synced() <-chan struct{} { return i.synced }

// ResourceVersion returns the version up to which the indexer is complete: that of the last list, event or bookmark. It is ""
// before the first list. It is never behind what handlers have been told.
func (i *Informer) ResourceVersion() string { return i.indexer.ResourceVersion() }

// AddIndex adds an index. It may be called at any time; when objects are there they are indexed before it returns. Adding a
// name twice keeps the first function.
func (i *Informer) AddIndex(name string, fn IndexFunc) { i.indexer.add(name, fn) }

// AddAggregate adds an aggregate. It may be called at any time; when objects are there it is told of them before AddAggregate returns.
func (i *Informer) AddAggregate(a Aggregate) { i.indexer.aggregate(a) }

// AddHandler adds a handler, before or after the informer has started. It is told of every object that is there
// (OnAdd with initial set) and then of what changes.
func (i *Informer) AddHandler(h EventHandler) *Registration { return i.AddHandlerWithResync(h, 0) }

// AddHandlerWithResync is AddHandler for a handler that wants OnUpdate(o, o) for every object once every period.
func (i *Informer) AddHandlerWithResync(h EventHandler, period time.Duration) *Registration {
	r := newRegistration(i, h, period)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers[r] = struct{}{}
	if i.HasSynced() {
		objects := i.indexer.List("")
		for _, o := range objects {
			r.queue.added(o, true)
		}
		r.initialQueued(len(objects))
		r.queue.signal()
	}
	if i.start != nil {
		i.start(r)
	}
	return r
}

func (i *Informer) removeHandler(r *Registration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.handlers, r)
}

// errRan is returned by a second Run.
var errRan = errors.New("an informer runs once")

// Run follows the resource until ctx ends, and returns when everything it started has ended. What the indexer holds stays
// readable. An informer runs once.
func (i *Informer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer cancel()
	i.mu.Lock()
	if i.ran {
		i.mu.Unlock()
		return fmt.Errorf("%s: %w", i.resource, errRan)
	}
	i.ran = true
	i.start = func(r *Registration) { wg.Go(func() { r.run(ctx) }) }
	for r := range i.handlers {
		i.start(r)
	}
	i.mu.Unlock()
	i.reflector.run(ctx)

	i.mu.Lock()
	i.start = nil // no handler starts any more, so the wait ends
	i.mu.Unlock()
	wg.Wait()
	return ctx.Err()
}

// The reflector's side: replace, apply, bookmark and flush are called from its goroutine only.

// replace makes the indexer hold exactly the objects of a list at version.
func (i *Informer) replace(objects map[string]*Object, version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	first := !i.HasSynced()
	changes := i.indexer.replace(objects, version)
	for r := range i.handlers {
		for _, c := range changes {
			switch {
			case c.old == nil:
				r.queue.added(c.now, first)
			case c.now == nil:
				r.queue.deleted(c.old, c.old, true)
			case c.old.uid() != c.now.uid(): // another object of the same name
				r.queue.deleted(c.old, c.old, true)
				r.queue.added(c.now, false)
			default:
				r.queue.updated(c.old, c.now)
			}
		}
	}
	if first {
		for r := range i.handlers {
			r.initialQueued(len(objects))
		}
		i.syncOnce.Do(func() { close(i.synced) })
	}
	for r := range i.handlers {
		r.queue.signal()
	}
}

// apply takes in one event (added, modified or deleted). Handlers are woken by the next flush.
func (i *Informer) apply(ev *wire.Event, e wire.Encoding) error {
	old, o, err := i.make(ev.Object, &ev.Meta, e)
	if err != nil {
		return err
	}
	if o == nil {
		if o = old; ev.Type != wire.Deleted {
			i.indexer.complete(old.version()) // known already
			return nil
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case ev.Type == wire.Deleted:
		if old == nil {
			i.indexer.complete(o.version()) // it was never here: the handlers know nothing of it
			break
		}
		i.indexer.remove(old, o.version())
		for r := range i.handlers {
			r.queue.deleted(old, o, false)
		}
	case old == nil:
		i.indexer.put(nil, o)
		for r := range i.handlers {
			r.queue.added(o, false)
		}
	default:
		i.indexer.put(old, o)
		for r := range i.handlers {
			r.queue.updated(old, o)
		}
	}
	i.dirty = true
	return nil
}

// make makes an object of its bytes and finds the version of it that the indexer holds, which is nil when there is none.
// It returns no object when the indexer's is the same version.
func (i *Informer) make(b []byte, m *wire.Meta, e wire.Encoding) (old, o *Object, err error) {
	if m.Name.Len() == 0 || m.ResourceVersion.Len() == 0 {
		return nil, nil, fmt.Errorf("%w: an object without name or resourceVersion", wire.ErrMalformed)
	}
	i.scratch = i.scratch[:0]
	if m.Namespace.Len() > 0 {
		i.scratch = append(append(i.scratch, m.Namespace.Of(b)...), '/')
	}
	i.scratch = append(i.scratch, m.Name.Of(b)...)
	var key string
	if old = i.indexer.find(i.scratch); old != nil {
		if key = old.key; old.version() == string(m.ResourceVersion.Of(b)) {
			return old, nil, nil
		}
	} else {
		key = string(i.scratch)
	}
	o, err = newObject(i.resource.Type, e, key, b, m, i.resource.DropManagedFields)
	return old, o, err
}

// bookmark says that the indexer is complete up to version.
func (i *Informer) bookmark(version []byte) { i.indexer.complete(string(version)) }

// flush wakes the handlers when there is something new. It is called before the reflector waits for the network, so that
// many events that come at once cost one wake-up.
func (i *Informer) flush() {
	if !i.dirty {
		return
	}
	i.dirty = false
	i.mu.Lock()
	defer i.mu.Unlock()
	for r := range i.handlers {
		r.queue.signal()
	}
}

// tellAgain queues an object for r once more if it is still there.
func (i *Informer) tellAgain(r *Registration, key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if o, ok := i.indexer.GetByKey(key); ok {
		r.queue.resync(o)
		r.queue.signal()
	}
}

// resync queues every object for r once more. What r has been told or is queued is at least as new as the indexer here,
// because mu is held.
func (i *Informer) resync(r *Registration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, o := range i.indexer.List("") {
		r.queue.resync(o)
	}
	r.queue.signal()
}
