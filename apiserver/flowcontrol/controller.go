package flowcontrol

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/server/mux"
	engine "k8s.io/apiserver/pkg/util/flowcontrol"

	"vigil/apiserver/authn"
	"vigil/apiserver/write"
	"vigil/kinds"
	"vigil/watchcache"
)

// Config says what is shared out, and where the rules are.
type Config struct {
	// Concurrency is how many requests may be under way, exempt ones left out; it is shared out among the priority levels.
	Concurrency int
	// QueueWait is how long a request may wait in its queue.
	QueueWait time.Duration

	Kinds  func() *kinds.Table // as served at the moment
	Cache  func(*kinds.Kind) *watchcache.Cache
	Writer *write.Writer
	Prefix string // of storage keys, with a slash at the end
	Logger *slog.Logger
}

// Controller is made by New. It is safe for use by many goroutines; without Run it knows the mandatory rules only.
type Controller struct {
	config  Config
	engine  engine.Interface
	dropped engine.DroppedRequestsTracker
	levels  *source // PriorityLevelConfigurations
	schemas *source // FlowSchemas
	self    *authn.User
}

// New prepares; nothing runs before Run.
func New(config Config) *Controller {
	register()
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Controller{
		config:  config,
		dropped: engine.NewDroppedRequestsTracker(),
		self:    &authn.User{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}},
	}
	c.schemas = newSource(c.cache("flowschemas"), config.Logger)
	c.levels = newSource(c.cache("prioritylevelconfigurations"), config.Logger)
	c.engine = engine.New(factory{levels: c.levels, schemas: c.schemas}, statusWriter{controller: c}, config.Concurrency)
	return c
}

func (c *Controller) kind(resource string) *kinds.Kind {
	return c.config.Kinds().ByResource(flowcontrolv1.SchemeGroupVersion.WithResource(resource))
}

func (c *Controller) cache(resource string) *watchcache.Cache {
	return c.config.Cache(c.kind(resource))
}

// Run follows the rules, and moves seats between levels by need, until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return ended(c.levels.follow(ctx)) })
	g.Go(func() error { return ended(c.schemas.follow(ctx)) })
	g.Go(func() error {
		err := c.engine.Run(ctx.Done())
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	g.Go(func() error { return c.keep(ctx) })
	return g.Wait()
}

// ended takes the end of a context for what it is: no error.
func ended(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// WaitSynced waits until the rules in force are those of the objects.
func (c *Controller) WaitSynced(ctx context.Context) error {
	for _, s := range []*source{c.levels, c.schemas} {
		select {
		case <-s.synced:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// DumpPrefix is where the engine shows levels, queues and requests.
const DumpPrefix = "/debug/api_priority_and_fairness/"

// Dumps answers for the pages below DumpPrefix: dump_priority_levels, dump_queues and dump_requests.
func (c *Controller) Dumps() http.Handler {
	pages := mux.NewPathRecorderMux("priority-and-fairness")
	c.engine.Install(pages)
	return pages
}
