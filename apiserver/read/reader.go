package read

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"vigil/apiserver/listmemory"
	"vigil/apiserver/metrics"
	"vigil/kinds"
	"vigil/object"
	"vigil/watchcache"
)

// Resource is one resource that can be read.
type Resource struct {
	Kind    *kinds.Kind
	Cache   *watchcache.Cache
	Prefix  string // of its keys: "/registry/pods/"
	Metrics *metrics.Resource
	// Compressor writes large lists for clients that accept gzip; nil compresses each of them anew.
	Compressor *object.Compressor
	// Budget bounds what the lists under way hold; nil bounds nothing.
	Budget *listmemory.Budget
}

// key is the etcd key of an object.
func (r *Resource) key(namespace, name string) string {
	if r.Kind.Namespaced {
		return r.Prefix + namespace + "/" + name
	}
	return r.Prefix + name
}

// Config says how watches behave.
type Config struct {
	// MinRequestTimeout bounds watches without timeoutSeconds: they last a random time between it and twice as long.
	// Default 30 minutes.
	MinRequestTimeout time.Duration
	// BookmarkEvery is the time between two bookmarks of a watch. Default 1 minute.
	BookmarkEvery time.Duration
	// LastChance is how long a client that has lost events because it does not read may take to read on and be told so, before its
	// stream is cut. Default 10 s. WebSockets have a limit of their own.
	LastChance time.Duration
	// Compress compresses every watch of a client that accepts it. Without it only those are that begin with sendInitialEvents=true, as upstream
	// does. Each event is compressed once, for all watches.
	Compress bool
	// Draining is closed when the server is about to stop: watches end then.
	Draining <-chan struct{}
	// Logger hears of watches that panic; nil discards.
	Logger *slog.Logger
}

// Reader answers watches; gets and lists need nothing but the resource. It is safe for use by many goroutines.
type Reader struct {
	minTimeout    time.Duration
	bookmarkEvery time.Duration
	lastChance    time.Duration
	compress      bool
	draining      <-chan struct{}
	delivery      *delivery
}

// New returns a reader.
func New(c Config) *Reader {
	r := &Reader{minTimeout: c.MinRequestTimeout, bookmarkEvery: c.BookmarkEvery, lastChance: c.LastChance, compress: c.Compress, draining: c.Draining}
	if r.minTimeout == 0 {
		r.minTimeout = 30 * time.Minute
	}
	if r.bookmarkEvery == 0 {
		r.bookmarkEvery = time.Minute
	}
	if r.lastChance == 0 {
		r.lastChance = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	r.delivery = newDelivery(runtime.GOMAXPROCS(0), c.Draining, c.Logger)
	return r
}

// Run drives watches until ctx ends. Without it each of them has a goroutine of its own, like those over WebSockets and of tables.
// When ctx ends no watches should be left: those that are, are cut off.
func (r *Reader) Run(ctx context.Context) error { return r.delivery.run(ctx) }
