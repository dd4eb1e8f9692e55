package cachetest

import (
	"errors"
	"slices"
	"testing"
)

// A small history in which the selector app=web sees an object enter, change, leave and come again.
func testHistory() *History {
	h := NewHistory()
	add := func(rev int64, key, app string) {
		o := Object{Namespace: "a", Name: key, App: app, Serial: int(rev)}
		w := Write{Rev: rev, Key: o.Key(), Object: &o}
		if app == "gone" {
			w.Object = nil
		}
		h.Add(w)
	}
	add(2, "x", "web")
	add(3, "y", "web")
	add(5, "x", "db")
	add(4, "x", "web") // acknowledged late
	add(6, "z", "")
	add(7, "x", "web")
	add(8, "y", "gone")
	h.Sort()
	return h
}

func obj(key, app string, serial int) Object {
	return Object{Namespace: "a", Name: key, App: app, Serial: serial}
}

func TestSegment_Check(t *testing.T) {
	good := []Event{
		{Type: "ADDED", Rev: 3, Object: obj("y", "web", 3)},
		{Type: "MODIFIED", Rev: 4, Object: obj("x", "web", 4)},
		{Type: "DELETED", Rev: 5, Object: obj("x", "web", 4)},
		{Type: "BOOKMARK", Rev: 6},
		{Type: "ADDED", Rev: 7, Object: obj("x", "web", 7)},
		{Type: "DELETED", Rev: 8, Object: obj("y", "web", 3)},
		{Type: "BOOKMARK", Rev: 8},
	}
	initial := append([]Event{
		{Type: "ADDED", Rev: 2, Object: obj("x", "web", 2)},
		{Type: "ADDED", Rev: 3, Object: obj("y", "web", 3)},
		{Type: "BOOKMARK", Rev: 3, InitialEnd: true},
	}, good[1:]...)
	cases := []struct {
		name    string
		initial bool
		change  func(ev []Event) []Event
		partial bool
		want    error
	}{
		{name: "good", change: func(ev []Event) []Event { return ev }},
		{name: "prefix", partial: true, change: func(ev []Event) []Event { return ev[:2] }},
		{name: "cut short", change: func(ev []Event) []Event { return ev[:2] }, want: ErrMissing},
		{name: "gap", partial: true, change: func(ev []Event) []Event { return slices.Delete(ev, 1, 2) }, want: ErrMissing},
		{name: "repeated", change: func(ev []Event) []Event { return slices.Insert(ev, 1, ev[0]) }, want: ErrRepeated},
		{name: "swapped", change: func(ev []Event) []Event { ev[4], ev[5] = ev[5], ev[4]; return ev }, want: ErrMissing},
		{name: "wrong type", change: func(ev []Event) []Event { ev[1].Type = "ADDED"; return ev }, want: ErrDifferent},
		{name: "wrong content", change: func(ev []Event) []Event { ev[2].Object.Serial = 5; return ev }, want: ErrDifferent},
		{name: "not selected", change: func(ev []Event) []Event {
			return slices.Insert(ev, 3, Event{Type: "ADDED", Rev: 6, Object: obj("z", "", 6)})
		}, want: ErrExtra},
		{name: "early bookmark", change: func(ev []Event) []Event { ev[3].Rev = 7; return ev }, want: ErrBookmark},
		{name: "backward bookmark", change: func(ev []Event) []Event { ev[3].Rev = 4; return ev }, want: ErrBookmark},
		{name: "initial", initial: true, change: func(ev []Event) []Event { return ev }},
		{name: "initial without end", initial: true, change: func(ev []Event) []Event { return ev[:2] }, want: ErrInitial},
		{name: "initial broken off", initial: true, partial: true, change: func(ev []Event) []Event { return ev[:2] }},
		{name: "initial misses one", initial: true, change: func(ev []Event) []Event { return slices.Delete(ev, 1, 2) }, want: ErrInitial},
		{name: "initial has one too many", initial: true, change: func(ev []Event) []Event { ev[2].Rev = 2; return ev }, want: ErrInitial},
		{name: "initial out of order", initial: true, change: func(ev []Event) []Event { ev[0], ev[1] = ev[1], ev[0]; return ev }, want: ErrInitial},
		{name: "event lost behind initial", initial: true, change: func(ev []Event) []Event { return slices.Delete(ev, 3, 4) }, want: ErrMissing},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := Segment{Selector: Selector{Labels: "app=web"}, After: 2, Initial: tc.initial, Done: !tc.partial}
			if s.Events = slices.Clone(good); tc.initial {
				s.Events = slices.Clone(initial)
			}
			s.Events = tc.change(s.Events)
			if err := s.Check(testHistory()); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestListing_Check(t *testing.T) {
	h := testHistory()
	good := Listing{Selector: Selector{Fields: "metadata.namespace=a", Labels: "app"}, Rev: 5, Items: []Item{{obj("x", "db", 5), 5}, {obj("y", "web", 3), 3}}}
	if err := good.Check(h); err != nil {
		t.Error(err)
	}
	stale := good
	stale.AtLeast = 6
	missing := good
	missing.Items = good.Items[:1]
	old := good
	old.Rev = 4
	for want, l := range map[error]Listing{ErrStale: stale, ErrList: missing} {
		if err := l.Check(h); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if err := old.Check(h); !errors.Is(err, ErrList) {
		t.Errorf("got %v, want %v", err, ErrList)
	}
}
