package replicaset

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"vigil/controllers/internal/podfacts"
	"vigil/informer"
)

// tally counts the pods of every set, event by event, so that a reconcile costs the same for a set of ten pods and of ten thousand. It is
// an informer.Aggregate: what it says is true for the indexer's contents at that moment.
type tally struct {
	mu   sync.Mutex
	sets map[string]map[string]*group // by namespace/uid of the controller, by the bytes of the pods' labels

	scratch []byte // two keys that are being made
}

// group are the pods of one set that have the same labels: usually all of them.
type group struct {
	labels      labels.Set
	pods        int
	active      int
	terminating int
	ready       int     // of the active ones
	since       []int64 // when the ready ones became so, ascending, in seconds since 1970, where that is known
}

func newTally() *tally { return &tally{sets: map[string]map[string]*group{}} }

// Change implements informer.Aggregate.
func (t *tally) Change(old, now *informer.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old != nil {
		t.countLocked(old, -1)
	}
	if now != nil {
		t.countLocked(now, 1)
	}
}

func (t *tally) countLocked(o *informer.Object, by int) {
	uid := o.ControllerUID()
	if uid == "" {
		return
	}
	state, err := podfacts.StateOf(o)
	if err != nil {
		return // who scales the set meets it, too, and says so
	}
	t.scratch = appendKey(t.scratch[:0], o.Namespace(), uid)
	n := len(t.scratch)
	t.scratch = o.AppendLabels(t.scratch)
	set, labels := t.scratch[:n], t.scratch[n:]
	groups := t.sets[string(set)]
	if groups == nil {
		groups = map[string]*group{}
		t.sets[string(set)] = groups
	}
	g := groups[string(labels)]
	if g == nil {
		g = &group{labels: o.Labels().Map()}
		groups[string(labels)] = g
	}
	g.count(state, by)
	if g.pods == 0 {
		delete(groups, string(labels))
		if len(groups) == 0 {
			delete(t.sets, string(set))
		}
	}
}

// appendKey makes the key of a set. The namespace is a part of it: what a pod says of its controller is not checked against it.
func appendKey(dst []byte, namespace, uid string) []byte {
	return append(append(append(dst, namespace...), '/'), uid...)
}

func (g *group) count(s podfacts.State, by int) {
	g.pods += by
	switch {
	case s.Finished:
	case s.Deleting:
		g.terminating += by
	default:
		g.active += by
		if !s.Ready {
			return
		}
		g.ready += by
		if s.HasTime {
			at, _ := slices.BinarySearch(g.since, s.ReadySince)
			if by > 0 {
				g.since = slices.Insert(g.since, at, s.ReadySince)
			} else {
				g.since = slices.Delete(g.since, at, at+1)
			}
		}
	}
}

// counts are numbers of a set's active pods, and of those on their way out.
type counts struct {
	active, labeled, ready, available int
	terminating                       int
	next                              time.Duration // until another ready pod is available; 0: none will be
}

// claimed has what a set counts its pods by.
type claimed struct {
	namespace string
	uid       types.UID
	selector  labels.Selector // pods that it does not match are not the set's
	template  labels.Selector // pods that it matches are fully labeled
	minReady  time.Duration
}

// of counts the pods of a set. strangers says that some are controlled by the set and do not match its selector; these are not counted.
func (t *tally) of(set claimed, now time.Time) (c counts, strangers bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range t.sets[string(appendKey(nil, set.namespace, string(set.uid)))] {
		if !set.selector.Matches(g.labels) {
			strangers = true
			continue
		}
		c.active += g.active
		c.terminating += g.terminating
		c.ready += g.ready
		if set.template.Matches(g.labels) {
			c.labeled += g.active
		}
		if set.minReady == 0 {
			c.available += g.ready
			continue
		}
		at, _ := slices.BinarySearchFunc(g.since, now, func(since int64, now time.Time) int {
			if now.Sub(time.Unix(since, 0)) >= set.minReady {
				return -1
			}
			return 1
		})
		c.available += at
		if at < len(g.since) {
			c.wait(set.minReady - now.Sub(time.Unix(g.since[at], 0)))
		}
	}
	return c, strangers
}

func (c *counts) wait(left time.Duration) {
	if c.next == 0 || left < c.next {
		c.next = left
	}
}

// add counts one more active pod, or with by -1 one less.
func (c *counts) add(set claimed, s podfacts.State, of labels.Labels, now time.Time, by int) {
	c.active += by
	if set.template.Matches(of) {
		c.labeled += by
	}
	if !s.Ready {
		return
	}
	c.ready += by
	switch left := set.minReady - now.Sub(time.Unix(s.ReadySince, 0)); {
	case set.minReady == 0, s.HasTime && left <= 0:
		c.available += by
	case s.HasTime && by > 0:
		c.wait(left)
	}
}
