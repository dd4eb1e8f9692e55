package quota

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// settling is how long after an object has been stored a recalculation may not have seen it.
	settling = 2 * time.Second
	// forgotten is when a booking is given up of which nobody has said what became of it.
	forgotten = 2 * time.Minute
)

// entry is a booking in one quota whose object may not be there yet.
type entry struct {
	quota string
	delta corev1.ResourceList
	until time.Time // counts no longer from then on
}

// expect notes bookings until their objects are there for everybody to see, or have failed.
func (n *namespace) expect(name string, batch []*booking) []*entry {
	entries := make([]*entry, len(batch))
	for i, b := range batch {
		e := &entry{quota: name, delta: b.delta, until: time.Now().Add(forgotten)}
		entries[i] = e
		b.attr.OnEnd(func(stored bool) {
			n.mu.Lock()
			defer n.mu.Unlock()
			e.until = time.Time{}
			if stored {
				e.until = time.Now().Add(settling)
			}
		})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.pending = slices.DeleteFunc(n.pending, func(e *entry) bool { return e.until.Before(now) })
	n.pending = append(n.pending, entries...)
	return entries
}

// forget drops bookings that were not made.
func (n *namespace) forget(entries []*entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range entries {
		e.until = time.Time{}
	}
}

// keepPending adds to a recalculated quota what it cannot have counted, but no more than it showed before.
func (n *namespace) keepPending(now, before *corev1.ResourceQuota) {
	at := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, used := range now.Status.Used {
		had, ok := before.Status.Used[name]
		if !ok || used.Cmp(had) >= 0 {
			continue
		}
		for _, e := range n.pending {
			if delta, ok := e.delta[name]; ok && e.quota == now.Name && e.until.After(at) {
				used.Add(delta)
			}
		}
		if used.Cmp(had) > 0 {
			used = had
		}
		now.Status.Used[name] = used.DeepCopy()
	}
}
