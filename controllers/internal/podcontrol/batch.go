package podcontrol

import (
	"cmp"
	"log/slog"
	"sync"

	"vigil/internal/panics"
)

// SlowStart calls do count times, in batches of 1, 2, 4 ... at once, and stops after a batch in which one failed: when a quota or a
// webhook refuses, it refuses all, and asking a thousand times would help nobody. It returns one of the errors: conditions show its text to
// people. A panic of do is logged, and is an error.
func SlowStart(logger *slog.Logger, count int, do func() error) error {
	for batch := 1; count > 0; batch *= 2 {
		batch = min(batch, count)
		if err := Each(logger, batch, batch, func(int) error { return do() }); err != nil {
			return err
		}
		count -= batch
	}
	return nil
}

// Each calls do for 0 to count-1, at most atOnce at a time, and returns one of the errors. A panic of do is logged, and is an error.
func Each(logger *slog.Logger, count, atOnce int, do func(i int) error) error {
	errs := make([]error, count)
	slots := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	for i := range count {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			errs[i] = panics.Try(logger, panics.Reconcile, func() error { return do(i) })
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}
