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
	// excludeLabel is on nodes that come and go, and so say nothing about the state of their zone.
	excludeLabel = "node.kubernetes.io/exclude-disruption"
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
	ready int                  // nodes that count and are
	count int                  // nodes that count
	next  map[string]time.Time // by zone: not before
}

type zoned struct {
	zone     string
	ready    bool
	excluded bool // by excludeLabel: it does not count, neither as ready nor as not
}

func newZoneTable(every time.Duration) *zoneTable {
	return &zoneTable{every: every, nodes: map[string]*zoned{}, next: map[string]time.Time{}}
}

// observed notes whether a node is ready. It says whether that changed what disrupted says.
func (t *zoneTable) observed(n *corev1.Node) (turned bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.disruptedLocked()
	t.countLocked(t.nodes[n.Name], -1)
	_, excluded := n.Labels[excludeLabel]
	z := &zoned{
		zone:     n.Labels[corev1.LabelTopologyRegion] + "/" + n.Labels[corev1.LabelTopologyZone],
		ready:    ready(n) == corev1.ConditionTrue,
		excluded: excluded,
	}
	t.nodes[n.Name] = z
	t.countLocked(z, 1)
	return t.disruptedLocked() != before
}

// countLocked adds a node, which may be nil, to the numbers, or takes it out of them.
func (t *zoneTable) countLocked(z *zoned, by int) {
	if z == nil || z.excluded {
		return
	}
	t.count += by
	if z.ready {
		t.ready += by
	}
}

func (t *zoneTable) forget(name string) (turned bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.disruptedLocked()
	t.countLocked(t.nodes[name], -1)
	delete(t.nodes, name)
	return t.disruptedLocked() != before
}

// disrupted says that no node of the cluster is ready. Then more likely this side of the network is broken.
func (t *zoneTable) disrupted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.disruptedLocked()
}

func (t *zoneTable) disruptedLocked() bool { return t.ready == 0 && t.count > 0 }

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
		case other.zone != z.zone, other.excluded:
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
