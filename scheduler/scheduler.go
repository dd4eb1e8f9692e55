package scheduler

import (
	"context"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"vigil/informer"
	"vigil/scheduler/nodecache"
	"vigil/scheduler/plugins"
	"vigil/scheduler/queue"
	"vigil/scheduler/volumes"
)

// Config says what a scheduler works with. Client and Informers are required.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Recorder  record.EventRecorder
	Logger    *slog.Logger
	Registry  prometheus.Registerer // nil: no metrics

	// Name is the spec.schedulerName of the pods that are scheduled. "": default-scheduler.
	Name string
	// Binders is how many bindings may be under way at once. 0: 16.
	Binders int
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = corev1.DefaultSchedulerName
	}
	if c.Binders == 0 {
		c.Binders = 16
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Recorder == nil {
		c.Recorder = &record.FakeRecorder{} // without a channel it drops everything
	}
	return c
}

// Scheduler binds pods to nodes.
type Scheduler struct {
	config  Config
	cache   *nodecache.Cache
	queue   *queue.Queue
	filters []plugins.Filter
	scores  []plugins.Score
	volumes *volumes.Binder
	metrics *metrics

	pods, nodes *informer.Informer
	start       int // where the next cycle's round of the nodes begins; used by the cycle's goroutine only
}

// New makes a scheduler and registers its handlers with the informers, so it must be called before they run.
func New(config Config) *Scheduler {
	config = config.withDefaults()
	s := &Scheduler{
		config:  config,
		cache:   nodecache.New(),
		queue:   queue.New(),
		filters: plugins.Filters(),
		scores:  plugins.Scores(),
	}
	s.volumes = volumes.New(config.Client, config.Informers, func() { s.queue.Happened(plugins.StorageChanged) })
	s.metrics = newMetrics(config.Registry, s.queue)
	s.follow()
	return s
}

// Run schedules until ctx ends. What is being bound then is waited for.
func (s *Scheduler) Run(ctx context.Context) error {
	for _, i := range append(s.volumes.Informers(), s.nodes, s.pods) {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	var binding sync.WaitGroup
	defer binding.Wait()
	slots := make(chan struct{}, s.config.Binders)
	for {
		entry, err := s.queue.Pop(ctx)
		if err != nil {
			return err
		}
		d, ok := s.cycle(ctx, entry)
		if !ok {
			continue
		}
		bind := func() {
			defer func() { <-slots }()
			s.bind(ctx, entry, d.node)
		}
		if d.binds { // it waits for others, who may never come: that takes no slot
			binding.Go(func() {
				if !s.bindVolumes(ctx, entry, d) {
					return
				}
				defer d.volumes.Release()
				slots <- struct{}{}
				bind()
			})
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			s.cache.Forget(entry.Pod.UID)
			return ctx.Err()
		}
		binding.Go(bind)
	}
}
