package health

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"vigil/internal/panics"
)

// Shared returns a check that asks fn at most once in every period, however many ask the check: anybody may, and what fn costs others pay.
// Who asks in between is told what was found last; who asks while fn runs waits for it. fn gets a context of its own, which ends
// after limit.
func Shared(log *slog.Logger, period, limit time.Duration, fn func(ctx context.Context) error) func(ctx context.Context) error {
	s := &shared{log: log, period: period, limit: limit, fn: fn}
	return s.check
}

type shared struct {
	log           *slog.Logger // gets panics of fn
	period, limit time.Duration
	fn            func(ctx context.Context) error

	mu      sync.Mutex
	found   error         // by the last run
	since   time.Time     // when it began; zero before the first
	running chan struct{} // closed when the run under way has ended; nil when there is none
}

func (s *shared) check(ctx context.Context) error {
	s.mu.Lock()
	if s.running == nil && !s.since.IsZero() && time.Since(s.since) < s.period {
		defer s.mu.Unlock()
		return s.found
	}
	if s.running == nil {
		s.running, s.since = make(chan struct{}), time.Now()
		go s.run(context.WithoutCancel(ctx), s.running)
	}
	running := s.running
	s.mu.Unlock()
	select {
	case <-running:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found
}

func (s *shared) run(ctx context.Context, over chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	err := panics.Try(s.log, panics.HealthCheck, func() error { return s.fn(ctx) })
	s.mu.Lock()
	s.found, s.running = err, nil
	s.mu.Unlock()
	close(over)
}
