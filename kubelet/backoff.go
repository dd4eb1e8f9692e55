package kubelet

import "time"

// Delays between restarts of a container and between attempts to pull an image, as upstream's (kubelet.go
// MaxContainerBackOff, imageBackOffPeriod).
const (
	initialDelay = 10 * time.Second
	maxDelay     = 5 * time.Minute
	// resetDelay is how long a container must have run for its next end to count as the first.
	resetDelay = 10 * time.Minute
)

// backoff remembers how long the containers of one pod have to wait, by name. It belongs to the pod's worker.
type backoff map[string]time.Duration

// until returns when a container that has ended may be started again; the first restart is immediate.
func (b backoff) until(last *Container) time.Time {
	if !last.Started.IsZero() && last.Finished.Sub(last.Started) >= resetDelay {
		delete(b, last.Name)
	}
	return last.Finished.Add(b[last.Name])
}

// restarted notes a restart and doubles the delay before the next one.
func (b backoff) restarted(container string) { b[container] = nextDelay(b[container]) }

func nextDelay(delay time.Duration) time.Duration {
	if delay == 0 {
		return initialDelay
	}
	return min(2*delay, maxDelay)
}
