package nodelifecycle

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A zone's state says how much of it is ready (upstream: pkg/controller/nodelifecycle, ComputeZoneState).
type zoneState int

const (
	zoneNormal  zoneState = iota
	zonePartial           // more than two nodes, and at least 55 % of all, are not ready
	zoneFull              // no node is ready
)

const (
	// unhealthyPercent (--unhealthy-zone-threshold) makes a zone partially disrupted.
	unhealthyPercent = 55
	// largeZone (--large-cluster-size-threshold): in smaller zones a partial disruption stops evictions, in larger ones it slows
	// them down.
	largeZone = 50
	// slowdown is by how much: from a node each 10 s to one each 100 s (--secondary-node-eviction-rate).
	slowdown = 10
)

func stateOfZone(ready, notReady int) zoneState {
	switch {
	case ready == 0 && notReady > 0:
		return zoneFull
	case notReady > 2 && notReady*100 >= unhealthyPercent*(ready+notReady):
		return zonePartial
	}
	return zoneNormal
}

// zoneTable knows which nodes are ready, by zone, and when a node of a zone may be tainted NoExecute.
type zoneTable struct {
	every time.Duration // between two nodes of a healthy zone

	mu    sync.Mutex
	nodes map[string]*zoned
	ready int                  // nodes that are
	next  map[string]time.Time // by zone: not before
}

type zoned struct {
	zone      string
	ready     bool
	announced corev1.ConditionStatus // the Ready condition for which there was an event
}

func newZoneTable(every time.Duration) *zoneTable {
	return &zoneTable{every: every, nodes: map[string]*zoned{}, next: map[string]time.Time{}}
}

// observed notes whether a node is ready. It says whether that changed what disrupted says.
func (t *zoneTable) observed(n *corev1.Node) (turned bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.disruptedLocked()
	z := t.ofLocked(n)
	t.setLocked(z, ready(n) == corev1.ConditionTrue)
	return t.disruptedLocked() != before
}

func (t *zoneTable) setLocked(z *zoned, ready bool) {
	if z.ready != ready {
		if z.ready = ready; ready {
			t.ready++
		} else {
			t.ready--
		}
	}
}

func (t *zoneTable) ofLocked(n *corev1.Node) *zoned {
	z := t.nodes[n.Name]
	if z == nil {
		z = &zoned{}
		t.nodes[n.Name] = z
	}
	z.zone = n.Labels[corev1.LabelTopologyRegion] + "/" + n.Labels[corev1.LabelTopologyZone]
	return z
}

func (t *zoneTable) forget(name string) (turned bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.disruptedLocked()
	if z := t.nodes[name]; z != nil {
		t.setLocked(z, false)
		delete(t.nodes, name)
	}
	return t.disruptedLocked() != before
}

// announced notes the Ready condition that an event is made for, and returns the one before. "": the node is new.
func (t *zoneTable) announced(n *corev1.Node) (was, is corev1.ConditionStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	z := t.ofLocked(n)
	was, is = z.announced, ready(n)
	z.announced = is
	return was, is
}

// disrupted says that no node of the cluster is ready. Then more likely this side of the network is broken.
func (t *zoneTable) disrupted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.disruptedLocked()
}

func (t *zoneTable) disruptedLocked() bool { return t.ready == 0 && len(t.nodes) > 0 }

// admit says whether a node that is not ready may be tainted NoExecute now. If not, it says when to ask again.
func (t *zoneTable) admit(name string, now time.Time) (ok bool, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	z := t.nodes[name]
	if z == nil {
		return false, recheck
	}
	ready, notReady := 0, 0
	for _, other := range t.nodes {
		switch {
		case other.zone != z.zone:
		case other.ready:
			ready++
		default:
			notReady++
		}
	}
	every := t.every
	if stateOfZone(ready, notReady) == zonePartial {
		if ready+notReady <= largeZone {
			return false, recheck
		}
		every *= slowdown
	}
	if wait := t.next[z.zone].Sub(now); wait > 0 {
		return false, min(wait, recheck)
	}
	t.next[z.zone] = now.Add(every)
	return true, 0
}

// retract gives back what admit granted, when the taint could not be written.
func (t *zoneTable) retract(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if z := t.nodes[name]; z != nil {
		delete(t.next, z.zone)
	}
}
