package cachetest

import (
	"errors"
	"fmt"
	"strings"
)

// The promises that can be broken.
var (
	ErrMissing   = errors.New("an event is missing")
	ErrRepeated  = errors.New("an event comes again or out of order")
	ErrDifferent = errors.New("an event is not what happened")
	ErrExtra     = errors.New("an event is none of the selection")
	ErrBookmark  = errors.New("a bookmark is wrong")
	ErrInitial   = errors.New("the initial events are not the state at their bookmark")
	ErrList      = errors.New("a list is not the state at its revision")
	ErrStale     = errors.New("a read is older than asked for")
)

// Segment is an unbroken stretch of one watch: from its start, over any number of reconnects that went on from the last
// revision seen, until it was told that history had expired.
type Segment struct {
	Watcher  string // for messages
	Selector Selector
	After    int64 // without Initial: the revision it started after
	Initial  bool  // it began with initial events; their bookmark, once seen, is among Events
	Events   []Event
	Done     bool // it has read to the end of the history
}

// Check compares a segment with the history.
func (s *Segment) Check(h *History) error {
	events, after := s.Events, s.After
	if s.Initial {
		end := -1
		for i, ev := range events {
			if ev.InitialEnd {
				end = i
				break
			}
		}
		if end < 0 {
			if s.Done {
				return s.errorf(ErrInitial, 0, "no bookmark")
			}
			return nil // broke off before its revision was known
		}
		after = events[end].Rev
		if err := s.checkInitial(events[:end], h.At(after, s.Selector)); err != nil {
			return err
		}
		events = events[end+1:]
	}
	return s.checkEvents(len(s.Events)-len(events), events, h.After(after, s.Selector))
}

func (s *Segment) checkInitial(got []Event, want []Item) error {
	for i, ev := range got {
		if i >= len(want) || ev.Type != "ADDED" || ev.Object != want[i].Object || ev.Rev != want[i].Rev {
			return s.errorf(ErrInitial, i, "want %v", at(want, i))
		}
	}
	if len(got) < len(want) {
		return s.errorf(ErrInitial, len(got), "want also %v", at(want, len(got)))
	}
	return nil
}

func (s *Segment) checkEvents(offset int, got, want []Event) error {
	next := 0
	var last int64 // of events and bookmarks
	for i, ev := range got {
		i += offset
		if ev.Type == "BOOKMARK" {
			if ev.Rev < last || ev.InitialEnd {
				return s.errorf(ErrBookmark, i, "after revision %d", last)
			}
			if next < len(want) && want[next].Rev <= ev.Rev {
				return s.errorf(ErrBookmark, i, "but %v has not come", want[next])
			}
			last = ev.Rev
			continue
		}
		switch {
		case ev.Rev <= last:
			return s.errorf(ErrRepeated, i, "after revision %d", last)
		case next == len(want) || ev.Rev < want[next].Rev:
			return s.errorf(ErrExtra, i, "next of the selection: %v", at(want, next))
		case ev.Rev > want[next].Rev:
			return s.errorf(ErrMissing, i, "want %v", want[next])
		case ev != want[next]:
			return s.errorf(ErrDifferent, i, "want %v", want[next])
		}
		last = ev.Rev
		next++
	}
	if s.Done && next < len(want) {
		return s.errorf(ErrMissing, len(s.Events), "want %v", want[next])
	}
	return nil
}

// Missing returns how many events the segment still has to read to have all of the history.
func (s *Segment) Missing(h *History) int {
	after, got, begun := s.After, 0, !s.Initial
	for _, ev := range s.Events {
		switch {
		case ev.InitialEnd:
			after, begun = ev.Rev, true
		case begun && ev.Type != "BOOKMARK":
			got++
		}
	}
	if !begun {
		return 1
	}
	return len(h.After(after, s.Selector)) - got
}

func at[T any](list []T, i int) string {
	if i >= len(list) {
		return "nothing"
	}
	return fmt.Sprintf("%v", list[i])
}

// errorf describes a broken promise with what was seen around event i.
func (s *Segment) errorf(promise error, i int, format string, args ...any) error {
	var around strings.Builder
	for j := max(0, i-5); j < min(len(s.Events), i+3); j++ {
		mark := "  "
		if j == i {
			mark = "> "
		}
		fmt.Fprintf(&around, "\n%s%d: %v", mark, j, s.Events[j])
	}
	return fmt.Errorf("%s %v after %d (initial %v): %w at event %d of %d: %s%s", s.Watcher, s.Selector, s.After, s.Initial, promise, i,
		len(s.Events), fmt.Sprintf(format, args...), around.String())
}

// Listing is a list that was read, in all its pages.
type Listing struct {
	Selector Selector
	Rev      int64 // of all pages
	Items    []Item
	AtLeast  int64 // the revision that it had to show
}

// Check compares a list with the history.
func (l *Listing) Check(h *History) error {
	if l.Rev < l.AtLeast {
		return fmt.Errorf("list %v at %d: %w: at least %d", l.Selector, l.Rev, ErrStale, l.AtLeast)
	}
	want := h.At(l.Rev, l.Selector)
	for i := range max(len(want), len(l.Items)) {
		if i >= len(want) || i >= len(l.Items) || want[i] != l.Items[i] {
			return fmt.Errorf("list %v at %d: %w: item %d is %s, want %s", l.Selector, l.Rev, ErrList, i, at(l.Items, i), at(want, i))
		}
	}
	return nil
}
