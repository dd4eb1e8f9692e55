package nodelifecycle

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// heldTaint is a NoExecute taint of a node and since when it is there: its own time, or when it was seen first, since taints
// that people add have none.
type heldTaint struct {
	corev1.Taint
	since time.Time
}

// evictor knows the nodes with NoExecute taints, and the pods that will have to leave them.
//
// A pod and its node's taint may be seen in any order: the handler of each first notes what it has seen and then looks for the other.
type evictor struct {
	mu     sync.RWMutex
	taints map[string][]heldTaint // by node; nodes without any are not here
	due    map[types.UID]struct{} // pods whose time is running
}

func newEvictor() *evictor {
	return &evictor{taints: map[string][]heldTaint{}, due: map[types.UID]struct{}{}}
}

// observed notes a node's taints and says whether they have changed.
func (e *evictor) observed(n *corev1.Node, now time.Time) (changed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.taints[n.Name]
	var after []heldTaint
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		held := heldTaint{Taint: t, since: now}
		if t.TimeAdded != nil {
			held.since = t.TimeAdded.Time
		} else if at := slices.IndexFunc(before, func(b heldTaint) bool { return b.Key == t.Key && b.Value == t.Value }); at >= 0 {
			held.since = before[at].since
		}
		after = append(after, held)
	}
	if len(after) == 0 {
		delete(e.taints, n.Name)
	} else {
		e.taints[n.Name] = after
	}
	return !slices.EqualFunc(before, after, func(a, b heldTaint) bool {
		return a.Key == b.Key && a.Value == b.Value && a.since.Equal(b.since)
	})
}

// nodeDeleted forgets a node and says whether it had taints. Its pods are left to the garbage collection.
func (e *evictor) nodeDeleted(name string) (had bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, had = e.taints[name]
	delete(e.taints, name)
	return had
}

func (e *evictor) tainted(node string) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.taints[node]) > 0
}

func (e *evictor) of(node string) []heldTaint {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.taints[node]
}

// schedule notes whether a pod's time is running, and says whether it was before.
func (e *evictor) schedule(pod types.UID, running bool) (was bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, was = e.due[pod]
	if running {
		e.due[pod] = struct{}{}
	} else {
		delete(e.due, pod)
	}
	return was
}

func (e *evictor) forget(pod types.UID) { e.schedule(pod, false) }

// leaveAt says when a pod has to leave a node with these taints; stays: never. A taint that it does not tolerate ends its time at
// once, one that it tolerates for some seconds ends it that long after the taint was added or the pod was bound, whichever came later.
func leaveAt(pod *corev1.Pod, taints []heldTaint, defaultSeconds int64) (at time.Time, stays bool) {
	tolerations := withDefaults(pod.Spec.Tolerations, defaultSeconds)
	stays = true
	for i := range taints {
		t := &taints[i]
		start := t.since
		if bound := boundAt(pod); bound.After(start) {
			start = bound
		}
		at2, tolerated := start, false
		for j := range tolerations {
			if !tolerations[j].ToleratesTaint(klog.Logger{}, &t.Taint, true) {
				continue
			}
			if tolerations[j].TolerationSeconds == nil {
				tolerated = true
			} else {
				at2 = start.Add(time.Duration(max(0, *tolerations[j].TolerationSeconds)) * time.Second)
			}
			break // the first that matches counts
		}
		if tolerated {
			continue
		}
		if stays || at2.Before(at) {
			at = at2
		}
		stays = false
	}
	return at, stays
}

// withDefaults adds what upstream's admission plug-in DefaultTolerationSeconds gives pods that say nothing about nodes that are
// not ready or unreachable.
func withDefaults(tolerations []corev1.Toleration, seconds int64) []corev1.Toleration {
	if seconds < 0 {
		return tolerations
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		says := slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		})
		if !says {
			tolerations = append(slices.Clip(tolerations), corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			})
		}
	}
	return tolerations
}

// boundAt is when a pod got its node, or was made if that is not known.
func boundAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// reconcilePod deletes a pod whose time on a tainted node is over.
func (c *Controller) reconcilePod(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	pod, err := c.pods.Get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if pod.DeletionTimestamp != nil {
		return 0, nil
	}
	at, stays := leaveAt(pod, c.evictor.of(pod.Spec.NodeName), c.config.DefaultTolerationSeconds)
	if stays {
		if c.evictor.schedule(pod.UID, false) {
			c.recorder.Eventf(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod %s", key)
		}
		return 0, nil
	}
	c.evictor.schedule(pod.UID, true)
	if wait := time.Until(at); wait > 0 {
		return wait, nil
	}
	c.recorder.Eventf(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s", key)
	err = c.setPodCondition(ctx, pod, "", corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
		Message: "Taint manager: deleting due to NoExecute taint", LastTransitionTime: now(),
	})
	if err == nil {
		err = c.deletePod(ctx, pod, nil)
	}
	if err != nil {
		return 0, fmt.Errorf("evict pod: %w", err)
	}
	c.logger.Info("the controller evicted a pod from a tainted node", "pod", key.String(), "node", pod.Spec.NodeName)
	return 0, nil
}
