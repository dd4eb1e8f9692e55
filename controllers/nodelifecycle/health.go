package nodelifecycle

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// health is what is known about a node's signs of life.
type health struct {
	uid       types.UID
	seen      time.Time              // when the last sign came, by this process's clock
	lease     string                 // the Lease's renewal time, as bytes: only that it changes matters
	heartbeat time.Time              // of the Ready condition
	ready     corev1.ConditionStatus // as last observed; "": the node never said
	givenUp   bool                   // silent for too long
	unmarked  bool                   // the node's conditions were made Unknown, and its pods are still to be marked
}

// healthTable has the health of all nodes. Leases and nodes come from different informers, in any order.
type healthTable struct {
	mu    sync.Mutex
	nodes map[string]*health
}

func newHealthTable() *healthTable { return &healthTable{nodes: map[string]*health{}} }

func (t *healthTable) ofLocked(name string) *health {
	h := t.nodes[name]
	if h == nil {
		h = &health{}
		t.nodes[name] = h
	}
	return h
}

// renewed notes the renewal of a node's Lease, and says whether the node had been given up.
func (t *healthTable) renewed(name, at string, now time.Time) (wasGivenUp bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.ofLocked(name)
	if at == "" || h.lease == at {
		return false
	}
	h.lease = strings.Clone(at) // not to keep the whole Lease
	h.seen = now
	wasGivenUp, h.givenUp = h.givenUp, false
	return wasGivenUp
}

// observed notes a state of the Node. A new Node that has not reported yet counts as having spoken when it was made.
func (t *healthTable) observed(n *corev1.Node, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.ofLocked(n.Name)
	c := condition(n, corev1.NodeReady)
	if h.uid != n.UID {
		*h = health{uid: n.UID, lease: h.lease, seen: now}
		if c == nil {
			h.seen = n.CreationTimestamp.Time
		}
	}
	if c == nil {
		h.ready, h.unmarked = "", false
		return
	}
	// Kubelets do not report Unknown: that is what this controller has written. After a restart nobody knows whether it had marked
	// the pods.
	if c.Status != corev1.ConditionUnknown {
		h.unmarked = false
	} else if h.ready == "" {
		h.unmarked = true
	}
	if c.Status != corev1.ConditionUnknown && (c.Status != h.ready || !c.LastHeartbeatTime.Time.Equal(h.heartbeat)) {
		h.seen, h.givenUp = now, false
	}
	h.heartbeat, h.ready = c.LastHeartbeatTime.Time, c.Status
}

// left says for how long a node may still be silent, 0 when it has been for too long.
func (t *healthTable) left(name string, now time.Time, grace, startup time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.ofLocked(name)
	if h.ready == "" && h.lease == "" {
		grace = startup
	}
	left := h.seen.Add(grace).Sub(now)
	if left > 0 {
		return left
	}
	h.givenUp = true
	return 0
}

// turned notes that the node's conditions were made Unknown. was is what Ready said before.
func (t *healthTable) turned(name string, was corev1.ConditionStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.ofLocked(name)
	h.ready = corev1.ConditionUnknown
	h.unmarked = h.unmarked || was == corev1.ConditionTrue || was == corev1.ConditionFalse
}

// toMark says whether the pods of a node are to be marked.
func (t *healthTable) toMark(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ofLocked(name).unmarked
}

// marked notes that the pods of a node have been marked.
func (t *healthTable) marked(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ofLocked(name).unmarked = false
}

// leaseGone forgets a node of which there was only a Lease.
func (t *healthTable) leaseGone(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.nodes[name]; h != nil && h.uid == "" {
		delete(t.nodes, name)
	}
}

func (t *healthTable) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.nodes, name)
}

const (
	neverUpdated     = "NodeStatusNeverUpdated"
	neverUpdatedText = "Kubelet never posted node status."
	stopped          = "NodeStatusUnknown"
	stoppedText      = "Kubelet stopped posting node status."
)

// reported are the conditions that kubelets report.
var reported = []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}

// giveUp makes all conditions that kubelets report Unknown, and says whether that changed any.
func giveUp(n *corev1.Node, now metav1.Time) (changed bool) {
	for _, t := range reported {
		c := condition(n, t)
		switch {
		case c == nil:
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
				Type: t, Status: corev1.ConditionUnknown, Reason: neverUpdated, Message: neverUpdatedText,
				LastHeartbeatTime: n.CreationTimestamp, LastTransitionTime: now,
			})
			changed = true
		case c.Status != corev1.ConditionUnknown:
			c.Status, c.Reason, c.Message, c.LastTransitionTime = corev1.ConditionUnknown, stopped, stoppedText, now
			changed = true
		}
	}
	return changed
}

// reconcileNode brings a node's conditions and taints, and its pods' readiness, to what its health asks for.
func (c *Controller) reconcileNode(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	n, err := c.nodes.Get("", key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	again := c.health.left(n.Name, time.Now(), c.config.NodeMonitorGracePeriod, c.config.NodeStartupGracePeriod)
	if again == 0 {
		next, was := n.DeepCopy(), ready(n)
		if giveUp(next, now()) {
			if n, err = c.client.CoreV1().Nodes().UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
				return conflictLater(fmt.Errorf("update conditions: %w", err))
			}
			c.health.turned(n.Name, was)
			c.readiness(n)
			if was == corev1.ConditionTrue { // kubelets announce what they themselves report
				c.nodeBecame(n, "NodeNotReady")
			}
		}
	}
	if err := c.mendLabels(ctx, n); err != nil {
		return conflictLater(err)
	}
	// What a kubelet that is heard says of its pods stays. Only when this controller has turned the conditions it speaks for the pods,
	// once: the kubelet would say the contrary again.
	if ready(n) == corev1.ConditionUnknown && c.health.toMark(n.Name) {
		if err := c.markPodsNotReady(ctx, n.Name); err != nil {
			return 0, err
		}
		c.health.marked(n.Name)
	}
	wait, err := c.taint(ctx, n)
	if err != nil {
		return conflictLater(fmt.Errorf("update taints: %w", err))
	}
	if wait > 0 && (again == 0 || wait < again) {
		again = wait
	}
	return again, nil
}

// conflictLater makes a conflict a reason to look again soon: the newer version is on its way.
func conflictLater(err error) (time.Duration, error) {
	switch {
	case apierrors.IsConflict(err):
		return 50 * time.Millisecond, nil
	case apierrors.IsNotFound(err):
		return 0, nil
	}
	return 0, err
}
