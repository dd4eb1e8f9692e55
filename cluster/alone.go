package cluster

import (
	"context"

	"golang.org/x/sync/errgroup"

	"vigil/internal/memory"
)

// Alone runs a component that has a process to itself, and has the process give back what memory a burst of work has left behind. With
// the API server comes the same.
func Alone(ctx context.Context, run func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return new(memory.Trimmer).Run(ctx) })
	group.Go(func() error {
		defer cancel()
		return run(ctx)
	})
	return group.Wait()
}
