package kubelet

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Delays between restarts of a container, as upstream's (kubelet.go MaxContainerBackOff, backOffPeriod).
const (
	initialRestartDelay = 10 * time.Second
	maxRestartDelay     = 5 * time.Minute
	// resetRestartDelay is how long a container must have run for its next failure to count as the first.
	resetRestartDelay = 10 * time.Minute
)

// backoff remembers how often containers have failed in a row.
type backoff struct {
	mu    sync.Mutex
	delay map[types.UID]map[string]time.Duration // by container name: the delay before the next restart
}

func newBackoff() *backoff { return &backoff{delay: map[types.UID]map[string]time.Duration{}} }

// until returns when a container that has ended may be started again; the first restart is immediate.
func (b *backoff) until(pod types.UID, last *Container) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last.Finished.Sub(last.Started) >= resetRestartDelay {
		delete(b.delay[pod], last.Name)
	}
	return last.Finished.Add(b.delay[pod][last.Name])
}

// restarted notes a restart and doubles the delay before the next one.
func (b *backoff) restarted(pod types.UID, container string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.delay[pod] == nil {
		b.delay[pod] = map[string]time.Duration{}
	}
	next := initialRestartDelay
	if d := b.delay[pod][container]; d > 0 {
		next = min(2*d, maxRestartDelay)
	}
	b.delay[pod][container] = next
}

func (b *backoff) current(pod types.UID, container string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.delay[pod][container]
}

func (b *backoff) forget(pod types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.delay, pod)
}
