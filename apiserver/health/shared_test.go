package health

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestShared: what a check costs is spent once in its period, whoever asks.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		var calls int
		var result error
		check := Shared(nil, 500*time.Millisecond, 2*time.Second, func(ctx context.Context) error {
			calls++
			select {
			case <-time.After(10 * time.Millisecond):
				return result
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		all := func(want error) {
			t.Helper()
			var wg sync.WaitGroup
			for range 1000 {
				wg.Go(func() {
					if err := check(t.Context()); !errors.Is(err, want) {
						t.Errorf("got %v, want %v", err, want)
					}
				})
			}
			wg.Wait()
		}
		began := time.Now()
		all(nil)
		result = broken
		all(nil) // still known
		time.Sleep(time.Second)
		all(broken)
		all(broken)
		result = nil
		time.Sleep(time.Second)
		all(nil)
		if calls != 3 {
			t.Errorf("%d calls in %v", calls, time.Since(began))
		}
		// Who has no time is told so; what it has begun goes on for the others.
		time.Sleep(time.Second)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := check(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		all(nil)
		if calls != 4 {
			t.Errorf("%d calls", calls)
		}
	})
}

// TestShared_Hangs: a check that does not answer is given up.
func TestShared_Hangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		check := Shared(nil, time.Second, 2*time.Second, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		began := time.Now()
		if err := check(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 2*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}
