package write

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/authn"
	"vigil/kinds"
	"vigil/object"
	"vigil/store"
)

// Config says what the writer works with. Store and Resource are needed.
type Config struct {
	Store Store
	// Resource returns what is served of a row at the moment; nil when that is nothing.
	Resource func(*kinds.Kind) *Resource
	// Prefix of all keys, with a slash at the end; "/registry/" when empty.
	Prefix string
	// Hooks do what a row of the table cannot. At most one for a resource.
	Hooks map[schema.GroupResource]Hook
	// Authorize answers what only turns out during a write: a PUT that creates, a PATCH that binds. The error is a
	// Forbidden Status. Nil allows everything.
	Authorize func(ctx context.Context, a Access) error
	// Logger gets panics of what a request does beside its own goroutine; nil discards.
	Logger *slog.Logger
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// Store is what the writer needs of etcd. *store.Store is one.
type Store interface {
	Create(ctx context.Context, key string, value []byte, ttl time.Duration) (rev int64, err error)
	Get(ctx context.Context, key string) (store.KV, error)
	Update(ctx context.Context, key string, value []byte, ifRev int64, ttl time.Duration) (rev int64, err error)
	Delete(ctx context.Context, key string, ifRev int64) (rev int64, err error)
}

// Cache is what the writer needs of a watch cache.
type Cache interface {
	// Get returns the newest version it has. It may lag behind etcd.
	Get(key string) (v *object.Version, ok bool)
	// Written is told of a version that has just been written.
	Written(v *object.Version)
}

// Access is a question to [Config.Authorize].
type Access struct {
	User        *authn.User
	Verb        string
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	Name        string
}

// Hook is what the writes of one resource do outside of the object. Nil functions do nothing.
type Hook struct {
	// Check is called before Prepare and says whether the request may write obj; old is nil for a create. Its error is an APIStatus.
	Check func(ctx context.Context, r *Request, obj, old kinds.Object) error
	// Prepare is called before the object is validated and stored, old is nil for a create. It may change obj. Then
	// one of commit (obj was stored) and rollback (it was not, or the request is a dry run) is called, or none when
	// nobody knows (store.ErrUncertain); both may be nil. When the write has to start again, so does this. Its error is an APIStatus.
	Prepare func(ctx context.Context, obj, old kinds.Object) (commit, rollback func(), err error)
	// Deleted is called after obj has been removed.
	Deleted func(ctx context.Context, obj kinds.Object)
	// Post answers what is POSTed to a subresource and is more than a change of the object ("token", "eviction"), and
	// under "" what is POSTed to a kind that is not stored. It takes the place of the subresource's Action.
	Post map[string]PostFunc
}

// PostFunc answers a POST (201). obj is a copy of the stored object that the path names, nil for a kind that is not
// stored. body has been decoded, defaulted and validated and is the function's own; it may be what is returned. An error
// that is no APIStatus becomes an internal error.
type PostFunc func(ctx context.Context, r *Request, obj kinds.Object, body runtime.Object) (runtime.Object, error)

// Request is a write with its body read. Kind is the row of the path's resource, Name is empty for the collection.
type Request struct {
	Kind *kinds.Kind
	// Resource is what was served of Kind when the request came; nil: what is served now.
	Resource *Resource

	Namespace, Name, Subresource string

	ContentType string
	Body        []byte // not kept
	RawQuery    string

	User      *authn.User
	UserAgent string

	// DryRun is what the query says about it, Warn adds a text for a Warning header. Set by the writer for a PostFunc.
	DryRun bool
	Warn   func(text string)

	// Annotate adds to the audit event of the request; nil does nothing.
	Annotate func(key, value string)
}

// Result is the answer to a write: exactly one of Version, Object and List is set.
type Result struct {
	Code     int // HTTP status
	Version  *object.Version
	Object   runtime.Object // what is not stored as such: a Status, a Scale, the outcome of a dry run
	List     *List
	Warnings []string // texts of Warning headers, without repetitions
}

// List is what a deletecollection answers: the objects it set out to delete, as they were.
type List struct {
	Items    []*object.Version
	Metadata object.ListMeta
}

// Writer does the writes. It is safe for use by many goroutines.
type Writer struct {
	store     Store
	resource  func(*kinds.Kind) *Resource
	prefix    string
	hooks     map[schema.GroupResource]Hook
	authorize func(ctx context.Context, a Access) error
	now       func() time.Time
	logger    *slog.Logger
}

// New returns a writer.
func New(c Config) *Writer {
	w := &Writer{
		store:     c.Store,
		resource:  c.Resource,
		prefix:    c.Prefix,
		hooks:     c.Hooks,
		authorize: c.Authorize,
		now:       c.Now,
		logger:    c.Logger,
	}
	if w.prefix == "" {
		w.prefix = "/registry/"
	}
	if w.now == nil {
		w.now = time.Now
	}
	if w.authorize == nil {
		w.authorize = func(context.Context, Access) error { return nil }
	}
	return w
}

// key is the place of an object in etcd.
func (w *Writer) key(k *kinds.Kind, namespace, name string) string {
	if k.Namespaced {
		return w.prefix + k.Path + "/" + namespace + "/" + name
	}
	return w.prefix + k.Path + "/" + name
}
