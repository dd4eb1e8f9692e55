package cachetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Object is what the checks know of an object. Serial is different in every write, and stands for its content.
type Object struct {
	Namespace, Name string
	Node            string // field spec.nodeName
	App             string // label app, absent when ""
	Serial          int
}

// Key orders objects as lists do.
func (o Object) Key() string { return o.Namespace + "/" + o.Name }

// Selector is what a list or watch asks for, in the grammar of the API. Empty parts select everything.
type Selector struct{ Namespace, Labels, Fields string }

func (s Selector) String() string {
	return fmt.Sprintf("{namespace=%q labels=%q fields=%q}", s.Namespace, s.Labels, s.Fields)
}

// Matcher returns the selector as a function that evaluates it in the plain way. It panics when the selector does not parse.
func (s Selector) Matcher() func(Object) bool {
	byLabel, err := labels.Parse(s.Labels)
	if err != nil {
		panic(err)
	}
	byField, err := fields.ParseSelector(s.Fields)
	if err != nil {
		panic(err)
	}
	return func(o Object) bool {
		if s.Namespace != "" && s.Namespace != o.Namespace {
			return false
		}
		set := labels.Set{}
		if o.App != "" {
			set["app"] = o.App
		}
		return byLabel.Matches(set) && byField.Matches(fields.Set{
			"metadata.name": o.Name, "metadata.namespace": o.Namespace, "spec.nodeName": o.Node})
	}
}

// Write is one acknowledged write. A deletion has no object.
type Write struct {
	Rev    int64
	Key    string
	Object *Object
}

// Event is what a watch delivers. An initial event has the revision of its object's last write.
type Event struct {
	Type   string // ADDED, MODIFIED, DELETED, BOOKMARK
	Rev    int64
	Object Object // zero in a bookmark
	// InitialEnd marks the bookmark behind the initial events.
	InitialEnd bool
}

func (e Event) String() string {
	if e.Type == "BOOKMARK" {
		return fmt.Sprintf("BOOKMARK@%d", e.Rev)
	}
	return fmt.Sprintf("%s@%d %s#%d", e.Type, e.Rev, e.Object.Key(), e.Object.Serial)
}

// Item is an object in a list.
type Item struct {
	Object Object
	Rev    int64
}

// History is the acknowledged writes. It may be appended to by many goroutines; what it says about a revision is complete
// once all writers are done.
type History struct {
	mu     sync.Mutex
	writes []Write
	newest int64
	grown  chan struct{} // closed at the next append
}

// NewHistory returns an empty history.
func NewHistory() *History { return &History{grown: make(chan struct{})} }

// Add records a write.
func (h *History) Add(w Write) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes = append(h.writes, w)
	h.newest = max(h.newest, w.Rev)
	close(h.grown)
	h.grown = make(chan struct{})
}

// Len returns the number of writes, Newest the greatest revision.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.writes)
}

// Newest returns the greatest revision.
func (h *History) Newest() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.newest
}

// WaitLen returns when there are n writes, or ctx has ended.
func (h *History) WaitLen(ctx context.Context, n int) {
	for {
		h.mu.Lock()
		have, grown := len(h.writes), h.grown
		h.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return
		}
	}
}

// Sort brings the writes into revision order. Call it when all writers are done and before the following.
func (h *History) Sort() {
	slices.SortFunc(h.writes, func(a, b Write) int { return cmp.Compare(a.Rev, b.Rev) })
}

// At returns what the selector selects at a revision, in key order.
func (h *History) At(rev int64, sel Selector) []Item {
	state, matches := map[string]Item{}, sel.Matcher()
	for _, w := range h.writes {
		if w.Rev > rev {
			break
		}
		delete(state, w.Key)
		if w.Object != nil && matches(*w.Object) {
			state[w.Key] = Item{*w.Object, w.Rev}
		}
	}
	items := make([]Item, 0, len(state))
	for _, i := range state {
		items = append(items, i)
	}
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.Object.Key(), b.Object.Key()) })
	return items
}

// After returns the events that a watch after a revision delivers.
func (h *History) After(rev int64, sel Selector) []Event {
	var events []Event
	state, matches := map[string]*Object{}, sel.Matcher()
	for _, w := range h.writes {
		old := state[w.Key]
		state[w.Key] = w.Object
		if w.Rev <= rev {
			continue
		}
		was, is := old != nil && matches(*old), w.Object != nil && matches(*w.Object)
		switch {
		case was && is:
			events = append(events, Event{Type: "MODIFIED", Rev: w.Rev, Object: *w.Object})
		case is:
			events = append(events, Event{Type: "ADDED", Rev: w.Rev, Object: *w.Object})
		case was:
			events = append(events, Event{Type: "DELETED", Rev: w.Rev, Object: *old})
		}
	}
	return events
}
