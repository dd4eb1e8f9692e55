package endpoints

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// triggers remembers which changes of pods and Services were seen, for the annotation last-change-trigger-time, by which the
// delay from a change to the network's is measured (upstream: k8s.io/endpointslice/trigger_time_tracker).
type triggers struct {
	mu   sync.Mutex
	seen map[types.NamespacedName]*seenTriggers // by Service
}

type seenTriggers struct {
	service time.Time
	pods    map[string]time.Time // by pod
}

func newTriggers() *triggers { return &triggers{seen: map[types.NamespacedName]*seenTriggers{}} }

// changed returns the time of the oldest change that was not seen at the last call for the Service: when a pod became ready or not,
// or the Service was made. It is zero when there is none.
func (t *triggers) changed(service *corev1.Service, pods []*corev1.Pod) time.Time {
	key := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.seen[key]
	if before == nil {
		before = &seenTriggers{}
	}
	var oldest time.Time
	note := func(at, last time.Time) {
		if at.After(last) && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	now := &seenTriggers{service: service.CreationTimestamp.Time, pods: make(map[string]time.Time, len(pods))}
	note(now.service, before.service)
	for _, pod := range pods {
		if c := readyCondition(pod); c != nil {
			now.pods[pod.Name] = c.LastTransitionTime.Time
			note(c.LastTransitionTime.Time, before.pods[pod.Name])
		}
	}
	t.seen[key] = now
	return oldest
}

func (t *triggers) forget(service types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.seen, service)
}

func readyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c
		}
	}
	return nil
}
