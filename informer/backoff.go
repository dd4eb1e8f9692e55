package informer

import (
	"context"
	"math/rand/v2"
	"time"
)

// timing is every duration of a reflector.
type timing struct {
	backoffMin, backoffMax time.Duration // the first and the longest wait after failures, before jitter adds up to as much again
	watchMin, watchMax     time.Duration // a watch asks the server to end it after a time between these
	watchGrace             time.Duration // how much longer than asked for it may last before the client ends it
	shortWatch             time.Duration // a watch that ends sooner and brought nothing counts as a failure
}

// defaultTiming has client-go's numbers.
func defaultTiming() timing {
	return timing{
		backoffMin: 800 * time.Millisecond, backoffMax: 30 * time.Second,
		watchMin: 5 * time.Minute, watchMax: 10 * time.Minute,
		watchGrace: 30 * time.Second,
		shortWatch: time.Second,
	}
}

// watchTimeout draws the time after which a server is to end a watch, so that many clients do not come back at once.
func (t timing) watchTimeout() time.Duration {
	return t.watchMin + rand.N(t.watchMax-t.watchMin)
}

// backoff is how long to wait after failures in a row: twice as long after each, with as much again added at random.
type backoff struct {
	min, max time.Duration
	base     time.Duration // of the next wait; 0 after a success
}

func (b *backoff) reset() { b.base = 0 }

func (b *backoff) next() time.Duration {
	if b.base == 0 {
		b.base = b.min
	}
	d := b.base + rand.N(b.base)
	b.base = min(2*b.base, b.max)
	return d
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
