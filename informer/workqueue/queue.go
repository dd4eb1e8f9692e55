package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"vigil/internal/panics"
)

// Reconcile makes what is for one name look like what should be. The name may be that of an object that is gone. With an error
// it is called again for the name later, with a growing delay; otherwise again after requeueAfter when that is not 0.
type Reconcile func(ctx context.Context, key types.NamespacedName) (requeueAfter time.Duration, err error)

// Terminal marks an error that trying again will not mend: it is logged and counted, and the name waits for its next event.
func Terminal(err error) error { return &terminalError{err} }

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }

// Config says how a queue behaves. The zero value works.
type Config struct {
	// Name is the queue's name in metrics: that of its controller, "replicaset".
	Name string
	// Logger gets failed reconciliations and says itself whose they are. Default: nothing is logged.
	Logger *slog.Logger
	// Limiter says how long names wait after failures. Default: client-go's for controllers.
	Limiter workqueue.TypedRateLimiter[types.NamespacedName]
	// Metrics counts. Nil: nothing does.
	Metrics *Metrics
}

// Queue holds the names that a controller has to look at. Its methods may be called from many goroutines, before and while it
// runs; names added before are worked on when it does.
type Queue struct {
	cfg Config

	mu      sync.Mutex
	running workqueue.TypedRateLimitingInterface[types.NamespacedName] // nil while Run is not running
	early   map[types.NamespacedName]time.Time                         // added before Run, and when they are due
	ran     bool
}

// New makes a queue.
func New(cfg Config) *Queue {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Limiter == nil {
		cfg.Limiter = workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()
	}
	return &Queue{cfg: cfg, early: map[types.NamespacedName]time.Time{}}
}

// Add puts a name into the queue. After the queue has ended it does nothing.
func (q *Queue) Add(key types.NamespacedName) { q.AddAfter(key, 0) }

// AddAfter puts a name into the queue when d has passed.
func (q *Queue) AddAfter(key types.NamespacedName, d time.Duration) {
	q.mu.Lock()
	running := q.running
	if running == nil {
		if !q.ran {
			due := time.Now().Add(d)
			if t, ok := q.early[key]; !ok || due.Before(t) {
				q.early[key] = due
			}
		}
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	if d > 0 {
		running.AddAfter(key, d)
	} else {
		running.Add(key)
	}
}

// Len is the number of names that wait for a worker.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running == nil {
		return len(q.early)
	}
	return q.running.Len()
}

// errRan is returned by a second Run.
var errRan = errors.New("a work queue runs once")

// Run works on names with that many workers until ctx ends, and returns when they have finished what they were doing.
// A queue runs once.
func (q *Queue) Run(ctx context.Context, workers int, reconcile Reconcile) error {
	if err := q.begin(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { q.work(ctx, reconcile) })
	}
	<-ctx.Done()
	q.running.ShutDown()
	wg.Wait()
	return ctx.Err()
}

func (q *Queue) begin() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ran {
		return errRan
	}
	q.ran = true
	cfg := workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: q.cfg.Name}
	if q.cfg.Metrics != nil {
		cfg.MetricsProvider = q.cfg.Metrics.provider
	}
	q.running = workqueue.NewTypedRateLimitingQueueWithConfig(q.cfg.Limiter, cfg)
	for key, due := range q.early {
		if d := time.Until(due); d > 0 {
			q.running.AddAfter(key, d)
		} else {
			q.running.Add(key)
		}
	}
	q.early = nil
	return nil
}

func (q *Queue) work(ctx context.Context, reconcile Reconcile) {
	for {
		key, shutdown := q.running.Get()
		if shutdown || ctx.Err() != nil {
			return
		}
		q.one(ctx, key, reconcile)
	}
}

func (q *Queue) one(ctx context.Context, key types.NamespacedName, reconcile Reconcile) {
	defer q.running.Done(key)
	start := time.Now()
	after, err := q.call(ctx, key, reconcile)
	q.cfg.Metrics.reconciled(q.cfg.Name, time.Since(start), after, err)
	var terminal *terminalError
	switch {
	case err == nil:
		q.running.Forget(key)
		if after > 0 {
			q.running.AddAfter(key, after)
		}
	case ctx.Err() != nil: // it was interrupted, which is no fault of its own
	case errors.As(err, &terminal):
		q.running.Forget(key)
		q.cfg.Logger.Error("a reconciliation failed; it is not tried again until its object changes", "key", key.String(), "error", err)
	default:
		q.running.AddRateLimited(key)
		failures := q.cfg.Limiter.NumRequeues(key)
		level := slog.LevelWarn
		if outrun(err) && failures <= outruns {
			level = slog.LevelInfo
		}
		q.cfg.Logger.Log(ctx, level, "a reconciliation failed; it is tried again with back-off", "key", key.String(), "error", err, "failures", failures)
	}
}

// call reconciles a name. A panic is an error like others: the name comes again with back-off.
func (q *Queue) call(ctx context.Context, key types.NamespacedName, reconcile Reconcile) (after time.Duration, err error) {
	defer func() {
		if value := recover(); value != nil {
			panics.Recovered(q.cfg.Logger, panics.Reconcile, value, "key", key.String())
			q.cfg.Metrics.panicked(q.cfg.Name)
			after, err = 0, &panics.Error{Place: panics.Reconcile, Value: value}
		}
	}()
	return reconcile(ctx, key)
}

// outruns is how often in a row a name may be outrun before that is worth a warning.
const outruns = 5

// outrun says whether err means that somebody else wrote first. That is part of life among controllers: the next try
// sees what they wrote.
func outrun(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}
