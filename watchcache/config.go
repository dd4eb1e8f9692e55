package watchcache

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"vigil/object"
	"vigil/store"
)

// Store is what the caches need of *store.Store.
type Store interface {
	Prefix() string
	Revision(ctx context.Context) (int64, error)
	List(ctx context.Context, prefix string, o store.ListOptions) (store.ListResult, error)
	LoadAll(ctx context.Context, prefix string, rev int64, fn func([]store.KV) error) (int64, error)
	Feed(ctx context.Context, after int64, fn func(store.Batch) error) error
	RequestProgress(ctx context.Context) error
}

// Config sets up a Server. The zero value works.
type Config struct {
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil means no metrics

	// Window bounds the history of each cache.
	Window Window

	// Backlog is how many revisions of history a load reads from etcd, as far as etcd still has them, so that watches
	// resume after a restart without a list. 0 means 5,000, negative none.
	Backlog int64
}

// Window bounds the events that one cache keeps, and with them the revisions at which it can be read. What is over any
// of the bounds goes, oldest first, in steps of up to 64 events.
type Window struct {
	// MaxEvents is the largest number of events. 0 means 102,400, kube-apiserver's bound.
	MaxEvents int
	// MaxBytes bounds the memory that only the window holds on to: replaced and deleted objects, with the encodings that
	// were made of them of late, and about 700 bytes for each event. It wins over Age and MinEvents. 0 means 64 MiB.
	MaxBytes int64
	// OldBytes bounds the same once events are older than Fresh: what a burst has left behind goes soon, while a quiet
	// cache keeps its history for Age. 0 means 8 MiB.
	OldBytes int64
	// Fresh is how long events are kept beyond OldBytes. 0 means 80 s: the API asks for 75 s at least.
	Fresh time.Duration
	// Age is how long an event is kept when the other bounds permit, and how long an exact revision or a continue
	// token can be read even if nothing has happened since. 0 means 5 minutes and 15 seconds: a little more than etcd's
	// compaction keeps.
	Age time.Duration
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Window.MaxEvents == 0 {
		c.Window.MaxEvents = 102400
	}
	if c.Window.MaxBytes == 0 {
		c.Window.MaxBytes = 64 << 20
	}
	if c.Window.OldBytes == 0 {
		c.Window.OldBytes = 8 << 20
	}
	if c.Window.Fresh == 0 {
		c.Window.Fresh = 80 * time.Second
	}
	if c.Window.Age == 0 {
		c.Window.Age = 5*time.Minute + 15*time.Second
	}
	switch {
	case c.Backlog == 0:
		c.Backlog = 5000
	case c.Backlog < 0:
		c.Backlog = 0
	}
	return c
}

// Resource is what one cache holds.
type Resource struct {
	Name   string       // as a group resource: "pods", "deployments.apps"; the labels of metrics
	Prefix string       // of the keys: "/registry/pods/"; two resources may share it (versions of one kind)
	Type   *object.Type // how the bytes are read

	// Indexes are the single-valued field labels that lists find by index and watches by branch: "spec.nodeName".
	Indexes []string

	// MinEvents is how many events are kept whatever their age (--watch-cache-sizes), within MaxBytes.
	MinEvents int
}

// group and resource are Name's two halves.
func (r Resource) split() (group, resource string) {
	resource, group, _ = strings.Cut(r.Name, ".")
	return group, resource
}

// tuning is what only tests set otherwise.
type tuning struct {
	now         func() time.Time
	chunkEvents int
	sweepEvery  time.Duration
}

var defaultTuning = tuning{now: time.Now, chunkEvents: 64, sweepEvery: time.Second}
