package kubelet

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// admit decides about a pod that this kubelet sees for the first time. What ran on the node before the kubelet was started stays.
// The caller holds mu, so that no two pods are given the same room.
func (k *Kubelet) admit(w *worker, pod *corev1.Pod) {
	if finished(pod) || pod.DeletionTimestamp != nil {
		return
	}
	if k.allocations.Knows(pod.UID) || pod.Status.StartTime != nil && !w.static {
		k.letIn(pod)
		return
	}
	if len(k.config.Parts.Admitters) > 0 {
		others := k.activeLocked()
		for _, admitter := range k.config.Parts.Admitters {
			refusal := admitter.Admit(pod, others)
			if refusal != nil && len(refusal.Victims) == 0 {
				k.reject(w, pod, refusal)
				return
			}
			if refusal != nil {
				w.victims = append(w.victims, refusal.Victims...)
			}
		}
	}
	k.letIn(pod)
}

// displace ends the pods in whose place this one was admitted, and returns when they have ended, or with ctx.
func (w *worker) displace(ctx context.Context) {
	const message = "Preempted in order to admit critical pod"
	var ended sync.WaitGroup
	for _, victim := range w.victims {
		w.kubelet.recorder.Event(victim, corev1.EventTypeWarning, "Preempting", message)
		ended.Go(func() {
			err := w.guard(victim, func() error {
				return w.kubelet.Evict(ctx, victim.UID, Eviction{Reason: "Preempting", Message: message, Condition: &corev1.PodCondition{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: message,
				}})
			})
			if err != nil {
				w.warn(ctx, "the kubelet could not end a pod in favour of a critical one; the critical one starts all the same", victim, err)
			}
		})
	}
	ended.Wait()
	w.victims = nil
}

// letIn notes what an admitted pod has of the node.
func (k *Kubelet) letIn(pod *corev1.Pod) {
	if objects := k.config.Parts.Objects; objects != nil {
		objects.Register(pod)
	}
	k.allocations.Admit(pod)
}

func (k *Kubelet) reject(w *worker, pod *corev1.Pod, why *Refusal) {
	k.recorder.Event(pod, corev1.EventTypeWarning, why.Reason, why.Message)
	w.ended = true
	w.rejected.Store(true)
	w.verdict = &corev1.PodStatus{Phase: corev1.PodFailed, Reason: why.Reason, Message: "Pod was rejected: " + why.Message}
}

// activeLocked are the pods that have a part of the node's resources: as many as they were given, which may be less than they now
// ask for.
func (k *Kubelet) activeLocked() []*corev1.Pod {
	active := make([]*corev1.Pod, 0, len(k.workers))
	for _, w := range k.workers {
		pod, gone := w.newest()
		if gone || w.rejected.Load() || finished(k.status.latest(pod)) {
			continue
		}
		active = append(active, k.allocations.Allocated(pod))
	}
	return active
}
