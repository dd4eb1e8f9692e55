package garbagecollector

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"vigil/informer"
	"vigil/informer/workqueue"
	"vigil/internal/panics"
)

const (
	workers = 20
	// discoverEvery is how often the server is asked for new resources.
	discoverEvery = 30 * time.Second
	// recheck is when an object is looked at again whose owner is there but in no cache.
	recheck = 30 * time.Second
	// firstLists is how long to wait for all informers before working with those that have their lists. Lists that do
	// not come cost requests, nothing else.
	firstLists = 30 * time.Second
)

// Config says what the controller works with. Server, Discovery, Metadata, Informers and Recorder are needed.
type Config struct {
	Server    *rest.Config // for informers of resources that come and go
	Discovery discovery.DiscoveryInterface
	Metadata  metadata.Interface
	Informers *informer.Factory // run by the caller
	Recorder  record.EventRecorder
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics

	// DiscoverEvery is how often the server is asked for new resources. Default: 30 s.
	DiscoverEvery time.Duration
}

// Controller collects garbage.
type Controller struct {
	config Config
	logger *slog.Logger
	queue  *workqueue.Queue // keys: see keyOf
	absent *absentOwners

	started atomic.Bool               // the first lists are complete: events count
	graph   atomic.Pointer[resources] // never changed once published
	unknown chan struct{}             // an owner's kind is unknown: discover soon

	mu       sync.Mutex
	reported map[[2]types.UID]struct{} // dependents and owners that got OwnerRefInvalidNamespace
}

// New makes the controller. Which informers it needs it finds out in Run.
func New(config Config) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.DiscoverEvery == 0 {
		config.DiscoverEvery = discoverEvery
	}
	c := &Controller{
		config:   config,
		logger:   config.Logger,
		queue:    workqueue.New(workqueue.Config{Name: "garbagecollector", Logger: config.Logger, Metrics: config.Metrics}),
		absent:   newAbsentOwners(),
		unknown:  make(chan struct{}, 1),
		reported: map[[2]types.UID]struct{}{},
	}
	c.graph.Store(&resources{})
	return c
}

// Run collects until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	defer c.stopInformers()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := c.discover(ctx, group)
		if err == nil {
			break
		}
		if ctx.Err() == nil {
			c.logger.Warn("the controller could not find out which resources are served; it tries again", "error", err)
		}
		if !sleep(ctx, wait) {
			_ = group.Wait()
			return ctx.Err()
		}
	}
	c.waitForLists(ctx)
	c.started.Store(true)
	for _, r := range c.graph.Load().all {
		for _, o := range r.informer.Indexer().List("") {
			c.look(r, o)
		}
	}
	group.Go(func() error { return c.queue.Run(ctx, workers, c.reconcile) })
	group.Go(func() error { return c.keepDiscovering(ctx, group) })
	return group.Wait()
}

// waitForLists waits until all informers have their first lists, but not longer than firstLists.
func (c *Controller) waitForLists(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstLists)
	defer cancel()
	for _, r := range c.graph.Load().all {
		if err := r.informer.WaitForSync(ctx); err != nil && ctx.Err() == nil {
			c.logger.Warn("the controller has not listed a resource yet; it begins without those objects", "resource", r.gvr.GroupResource().String(), "error", err)
		}
	}
}

func (c *Controller) keepDiscovering(ctx context.Context, group *errgroup.Group) error {
	ticker := time.NewTicker(c.config.DiscoverEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-c.unknown:
		}
		if err := panics.Try(c.logger, panics.Reconcile, func() error { return c.discover(ctx, group) }); err != nil && ctx.Err() == nil {
			c.logger.Warn("the controller could not find out which resources are served; it tries again", "error", err)
		}
		if !sleep(ctx, time.Second) { // unknown kinds do not make this a busy loop
			return ctx.Err()
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// reconcile looks at one object.
func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	r, o := c.graph.Load().find(key)
	if o == nil {
		return 0, nil
	}
	object, err := metadataOf(o)
	if err != nil {
		return 0, workqueue.Terminal(err)
	}
	switch {
	case object.DeletionTimestamp == nil:
		return c.collect(ctx, r, object)
	case has(object, metav1.FinalizerOrphanDependents):
		return 0, c.orphan(ctx, r, object)
	case has(object, metav1.FinalizerDeleteDependents):
		return 0, c.foreground(ctx, r, object)
	}
	return 0, nil
}
