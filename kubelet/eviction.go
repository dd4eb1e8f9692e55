package kubelet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Eviction says why a pod has to leave its node, and how.
type Eviction struct {
	Reason, Message string         // of the pod's status: "Evicted", "The node was low on resource: memory. "
	Grace           *time.Duration // instead of the pod's own; nil: that
	// Condition is set in the pod's status, with its type, reason and message; nil: none.
	Condition *corev1.PodCondition
}

// eviction is one under way.
type eviction struct {
	Eviction
	done chan struct{} // closed when the pod's containers have ended, and what it had of the node is given back
}

// Evict ends a pod with phase Failed and returns when its containers have ended and its volumes are gone, or with ctx's error. A
// pod that ends already, or is not on this node, is no error.
func (k *Kubelet) Evict(ctx context.Context, uid types.UID, how Eviction) error {
	k.mu.Lock()
	w := k.workers[uid]
	k.mu.Unlock()
	if w == nil {
		return nil
	}
	w.mu.Lock()
	if w.eviction == nil {
		w.eviction = &eviction{Eviction: how, done: make(chan struct{})}
		w.giveUpLocked()
	}
	done := w.eviction.done
	w.mu.Unlock()
	w.signal()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of pod %s: %w", uid, context.Cause(ctx))
	}
}

// evicted returns the eviction of the pod, nil when there is none.
func (w *worker) evicted() *eviction {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.eviction
}

// evictionDone tells who waits for the pod's end that it is there.
func (w *worker) evictionDone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.eviction == nil {
		return
	}
	select {
	case <-w.eviction.done:
	default:
		close(w.eviction.done)
	}
}
