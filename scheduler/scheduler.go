package scheduler

import (
	"context"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"vigil/informer"
	"vigil/internal/panics"
	"vigil/internal/warm"
	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
	"vigil/scheduler/queue"
	"vigil/scheduler/volumes"
)

// Config says what a scheduler works with. Client and Informers are required.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	// Recorder makes the recorder of a profile's events. Nil: there are none.
	Recorder func(profile string) record.EventRecorder
	Logger   *slog.Logger
	Registry prometheus.Registerer // nil: no metrics

	// Profiles are how pods are scheduled, by their spec.schedulerName. None: DefaultProfile.
	Profiles []Profile
	// Plugins are further plug-ins of a profile. They are asked after those that are here, at all points but Bind, where they come first. Their
	// scores have the profile's weight, or 1. Nil: there are none.
	Plugins func(profile Profile) []framework.Plugin
	// Backoff is how long a pod that was not bound waits.
	Backoff queue.Backoff
	// Binders is how many bindings may be under way at once. 0: 16.
	Binders int
}

func (c Config) withDefaults() Config {
	if len(c.Profiles) == 0 {
		c.Profiles = []Profile{DefaultProfile()}
	}
	if c.Binders == 0 {
		c.Binders = 16
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Recorder == nil {
		c.Recorder = func(string) record.EventRecorder { return &record.FakeRecorder{} } // without a channel it drops everything
	}
	return c
}

// Scheduler binds pods to nodes.
type Scheduler struct {
	config   Config
	cache    *nodecache.Cache
	queue    *queue.Queue
	profiles map[string]*profile // by spec.schedulerName
	volumes  *volumes.Binder
	metrics  *metrics

	pods, nodes *informer.Informer

	// Used by the cycle's goroutine only.
	start       int                      // where the next cycle's round of the nodes begins
	filters     []framework.FilterPlugin // that have something to say about the pod of the cycle under way
	feasible    []*nodecache.Node        // that its filters have left
	totals, raw []int64                  // of these: weighted scores, and those of one plug-in
}

// New makes a scheduler and registers its handlers with the informers, so it must be called before they run.
func New(config Config) *Scheduler {
	config = config.withDefaults()
	s := &Scheduler{
		config:   config,
		cache:    nodecache.New(),
		queue:    queue.New(config.Backoff),
		profiles: map[string]*profile{},
	}
	s.volumes = volumes.New(config.Client, config.Informers, func() { s.queue.Happened(framework.StorageChanged) })
	for _, p := range config.Profiles {
		s.profiles[p.Name] = newProfile(p, config.Recorder(p.Name), s.others(p)...)
	}
	s.metrics = newMetrics(config.Registry, s.queue)
	s.follow()
	return s
}

// others are the plug-ins of a profile that package plugins does not have.
func (s *Scheduler) others(p Profile) []framework.Plugin {
	var others []framework.Plugin
	if p.Volumes.Binding || p.Volumes.Restrictions || p.Volumes.Zone {
		others = append(others, &volumes.Plugin{Binder: s.volumes, Rules: p.Volumes, Users: s.cache.Users, Wanted: s.isThere})
	}
	if s.config.Plugins != nil {
		others = append(others, s.config.Plugins(p)...)
	}
	return append(others, defaultBinder{s.config.Client})
}

// isThere says whether a pod still exists.
func (s *Scheduler) isThere(pod *nodecache.Pod) bool {
	o, ok := s.pods.Indexer().Get(pod.Namespace, pod.Pod.Name)
	return ok && o.UID() == pod.UID
}

// Run schedules until ctx ends. What is being bound then is waited for.
func (s *Scheduler) Run(ctx context.Context) error {
	for _, i := range append(s.volumes.Informers(), s.nodes, s.pods) {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	var workers warm.Pool
	defer workers.Close()
	var binding sync.WaitGroup
	defer binding.Wait()
	inBackground := func(f func()) {
		binding.Add(1)
		workers.Go(func() {
			defer binding.Done()
			f()
		})
	}
	slots := make(chan struct{}, s.config.Binders)
	for {
		entry, err := s.queue.Pop(ctx)
		if err != nil {
			return err
		}
		d, ok := s.attempt(ctx, entry)
		if !ok {
			continue
		}
		bind := func() {
			defer func() { <-slots }()
			s.guard(entry, panics.Binding, func() { s.bind(ctx, entry, d) })
		}
		if s.profileOf(entry.Pod).waits(d, entry.Pod) { // for others, who may never come: that takes no slot
			inBackground(func() {
				ready := false
				s.guard(entry, panics.Binding, func() { ready = s.prepare(ctx, entry, d) })
				if !ready {
					return
				}
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
		inBackground(bind)
	}
}

// attempt is cycle for a pod that may make it panic.
func (s *Scheduler) attempt(ctx context.Context, entry *queue.Entry) (d *decision, ok bool) {
	s.guard(entry, panics.Scheduling, func() { d, ok = s.cycle(ctx, entry) })
	return d, ok
}

// guard calls f, which deals with a pod. After a panic what was assumed of the pod is taken back, and it is tried again after its backoff.
func (s *Scheduler) guard(entry *queue.Entry, place panics.Place, f func()) {
	pod := entry.Pod
	if !panics.Do(s.config.Logger, place, f, "namespace", pod.Namespace, "pod", pod.Pod.Name) {
		s.undo(entry)
	}
}
