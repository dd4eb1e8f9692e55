package informer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

// Config says how a factory's informers behave. The zero value works.
type Config struct {
	// Logger gets what an operator should know: that a list or watch was interrupted. Default: nothing is logged.
	Logger *slog.Logger
	// Registerer gets the metrics of one factory; a second one with the same Registerer fails. Nil: there are none to be seen.
	Registerer prometheus.Registerer
	// Compression asks the server for gzip. It saves bytes on the wire and costs CPU time at both ends.
	Compression bool
}

// Factory makes informers and runs them. Informers for the same resource and selection are one and the same.
type Factory struct {
	client  *client
	logger  *slog.Logger
	metrics *metrics
	timing  timing

	mu        sync.Mutex
	informers map[identity]*Informer
	start     func(*Informer) // nil while Run is not running
	ran       bool
}

// NewFactory makes a factory for the API server that cfg names. It connects to nothing yet.
func NewFactory(server *rest.Config, cfg Config) (*Factory, error) {
	c, err := newClient(server, cfg.Compression)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("informer metrics: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Factory{client: c, logger: cfg.Logger, metrics: m, timing: defaultTiming(), informers: map[identity]*Informer{}}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(newCollector(f)); err != nil {
			return nil, fmt.Errorf("informer metrics: %w", err)
		}
	}
	return f, nil
}

// Informer returns the informer for a resource, the same one for all who ask. It starts with Run, or at once when Run is
// running already.
func (f *Factory) Informer(res Resource) *Informer {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := res.identity()
	if i := f.informers[id]; i != nil {
		return i
	}
	i := newInformer(res)
	i.metrics = f.metrics.of(res)
	i.logger = f.logger.With("resource", res.String())
	i.reflector = &reflector{
		inf: i, client: f.client, metrics: i.metrics, timing: f.timing,
		logger: i.logger,
	}
	f.informers[id] = i
	if f.start != nil {
		f.start(i)
	}
	return i
}

// Run runs all informers until ctx ends, and returns when everything they started has ended. A factory runs once.
func (f *Factory) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	f.mu.Lock()
	if f.ran {
		f.mu.Unlock()
		return errRan
	}
	f.ran = true
	f.start = func(i *Informer) { wg.Go(func() { _ = i.Run(ctx) }) } // it fails with ctx only
	var mine *Informer                                               // one needs no goroutine but this one
	for _, i := range f.informers {
		if mine == nil {
			mine = i
			continue
		}
		f.start(i)
	}
	f.mu.Unlock()

	if mine != nil {
		_ = mine.Run(ctx)
	}
	<-ctx.Done()
	f.mu.Lock()
	f.start = nil
	f.mu.Unlock()
	wg.Wait()
	return ctx.Err()
}

// all returns the informers that there are now, in the order of their resources' names.
func (f *Factory) all() []*Informer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(maps.Values(f.informers), func(a, b *Informer) int { return cmp.Compare(a.resource.String(), b.resource.String()) })
}

// WaitForSync waits until every informer that was asked for before the call has its first list and every handler has been told
// of it. It fails when ctx ends first, and says what is missing.
func (f *Factory) WaitForSync(ctx context.Context) error {
	var missing []string
	for _, i := range f.all() {
		if i.WaitForSync(ctx) != nil {
			missing = append(missing, i.resource.String())
		}
	}
	if len(missing) > 0 {
		return notSynced(ctx, strings.Join(missing, ", "))
	}
	return nil
}

// WaitForSync waits until the informer has its first list and the handlers that it has now have been told of it. It fails when
// ctx ends first.
func (i *Informer) WaitForSync(ctx context.Context) error {
	i.mu.Lock()
	waiting := []<-chan struct{}{i.synced}
	for r := range i.handlers {
		waiting = append(waiting, r.synced)
	}
	i.mu.Unlock()
	for _, c := range waiting {
		select {
		case <-c:
			continue // even when ctx has ended
		default:
		}
		select {
		case <-c:
		case <-ctx.Done():
			return notSynced(ctx, i.resource.String())
		}
	}
	return nil
}

func notSynced(ctx context.Context, resources string) error {
	return fmt.Errorf("waiting for the first list of %s: %w", resources, ctx.Err())
}
