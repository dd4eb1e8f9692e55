package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// While the disk is looked at, writes for which the last look has found room go on, and others wait for the end of the look, or not for ever.
func TestDisk_NobodyWaitsForALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t.TempDir(), nil, nil, nil)
		d.full.Store(true)
		d.looking = true // and goes on for as long as it likes
		d.room = [shrinks + 1]int64{keeps: 2 * cost(1000), shrinks: 3 * cost(1000)}
		began := time.Now()
		replaced := func() int { return 1000 }
		for _, want := range []demand{keeps, keeps, shrinks} {
			if err := d.admit(t.Context(), want, 1000, replaced); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("writes waited for %v", took)
		}
		if err := d.admit(t.Context(), keeps, 1000, replaced); !errors.Is(err, ErrNoSpace) || time.Since(began) != longestWait {
			t.Errorf("a write without room: %v, after %v", err, time.Since(began))
		}
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := d.admit(hurried, grows, 1000, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("a write that has a second: %v, after %v", err, time.Since(began))
		}
		admitted := make(chan error)
		go func() { admitted <- d.admit(t.Context(), grows, 1000, nil) }()
		synctest.Wait()
		d.mu.Lock()
		d.room[grows], d.spent, d.looking, d.looked = cost(1000), 0, false, time.Now()
		d.mu.Unlock()
		d.wake()
		if err := <-admitted; err != nil {
			t.Errorf("a write for which the look has found room: %v", err)
		}
	})
}
