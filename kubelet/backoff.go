package kubelet

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

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

// remembered is what a pod's status tells a kubelet that was started after the pod's containers: those that wait say how long, of
// others the restarts are counted that were not long ago.
func remembered(pod *corev1.Pod) backoff {
	b := backoff{}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if delay := rememberedDelay(&statuses[i]); delay > 0 {
				b[statuses[i].Name] = delay
			}
		}
	}
	return b
}

func rememberedDelay(status *corev1.ContainerStatus) time.Duration {
	if w := status.State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" {
		text, _, _ := strings.Cut(strings.TrimPrefix(w.Message, "back-off "), " ")
		if delay, err := time.ParseDuration(text); err == nil && delay > 0 {
			return min(delay, maxDelay)
		}
	}
	last := status.LastTerminationState.Terminated
	if last == nil || last.FinishedAt.Sub(last.StartedAt.Time) >= resetDelay {
		return 0
	}
	delay := time.Duration(0)
	for range min(status.RestartCount, 6) { // which is enough for the longest
		delay = nextDelay(delay)
	}
	return delay
}

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
