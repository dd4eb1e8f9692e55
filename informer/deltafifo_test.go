package informer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vigil/informer/internal/wire"
)

// version makes one version of an object that is nothing but its key and version.
func version(key string, v int) *Object {
	data := fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"%d"}}`, key, v)
	var m wire.Meta
	if err := wire.ReadMeta(wire.JSON, []byte(data), &m); err != nil {
		panic(err)
	}
	o, err := newObject(podResource.Type, wire.JSON, key, []byte(data), &m, false)
	if err != nil {
		panic(err)
	}
	return o
}

// Each story is what happens to one object while its handler is busy: + added, ~ updated, - deleted, ! deleted (only
// noticed by a list), numbered from 1; "seen" begins with an object the handler knows as version 0.
func TestDeltaFIFO_Stories(t *testing.T) {
	for story, want := range map[string]string{
		"+":                "add 1",
		"+ ~ ~":            "add 3",
		"+ -":              "add 2, delete 2",
		"+ ~ -":            "add 3, delete 3",
		"+ - +":            "add 2, delete 2, add 3",
		"+ - + -":          "add 4, delete 4", // of several lives that passed the newest
		"+ - + ~ - + ~":    "add 5, delete 5, add 7",
		"seen ~":           "update 0>1",
		"seen ~ ~ ~ ~ ~":   "update 0>5",
		"seen -":           "delete 1",
		"seen ~ -":         "delete 2",
		"seen !":           "stale 0",
		"seen ~ !":         "stale 1",
		"seen - +":         "delete 1, add 2",
		"seen - + ~":       "delete 1, add 3",
		"seen - + -":       "delete 1, add 3, delete 3",
		"seen - + - + ~":   "delete 1, add 3, delete 3, add 5",
		"seen ~ - + - + -": "delete 2, add 6, delete 6",
	} {
		q := newDeltaFIFO()
		var now *Object
		n := 0
		for _, step := range strings.Fields(story) {
			if step == "seen" {
				now = version("a", 0)
				continue
			}
			n++
			o := version("a", n)
			switch step {
			case "+":
				q.added(o, false)
				now = o
			case "~":
				q.updated(now, o)
				now = o
			case "-":
				q.deleted(now, o, false)
			case "!":
				q.deleted(now, now, true)
			}
		}
		var told []string
		h := tellTale(func(s string) { told = append(told, s) })
		d, ok := q.pop()
		if !ok {
			t.Fatalf("%s: nothing in the queue", story)
		}
		h.deliver(&d)
		if got := strings.Join(told, ", "); got != want {
			t.Errorf("%s: told %q, want %q", story, got, want)
		}
		if _, ok := q.pop(); ok {
			t.Errorf("%s: more than one entry", story)
		}
	}
}

func tellTale(tell func(string)) EventHandler {
	return EventHandler{
		OnAdd:    func(o *Object, _ bool) { tell("add " + o.ResourceVersion()) },
		OnUpdate: func(old, o *Object) { tell("update " + old.ResourceVersion() + ">" + o.ResourceVersion()) },
		OnDelete: func(o *Object, stale bool) {
			if stale {
				tell("stale " + o.ResourceVersion())
			} else {
				tell("delete " + o.ResourceVersion())
			}
		},
	}
}

// Random histories and a handler that looks at random times: what it is told must lead from what it knew to what is, through
// states that were, and never tell of more objects than there are names.
func TestDeltaFIFO_RandomHistories(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const names = 12
	for range 200 {
		q := newDeltaFIFO()
		truth, known := map[string]*Object{}, map[string]string{}
		check := EventHandler{
			OnAdd: func(o *Object, _ bool) {
				if _, there := known[o.Key()]; there {
					t.Errorf("add of %s, which the handler knows", o.Key())
				}
				known[o.Key()] = o.ResourceVersion()
			},
			OnUpdate: func(old, o *Object) {
				if known[o.Key()] != old.ResourceVersion() {
					t.Errorf("update of %s from %s, the handler knows %q", o.Key(), old.ResourceVersion(), known[o.Key()])
				}
				known[o.Key()] = o.ResourceVersion()
			},
			OnDelete: func(o *Object, _ bool) {
				if _, there := known[o.Key()]; !there {
					t.Errorf("delete of %s, which the handler does not know", o.Key())
				}
				delete(known, o.Key())
			},
		}
		pop := func() bool {
			d, ok := q.pop()
			if ok {
				check.deliver(&d)
			}
			return ok
		}
		for v := 1; v < 300; v++ {
			name := fmt.Sprint("o", rng.IntN(names))
			o, old := version(name, v), truth[name]
			switch {
			case old == nil:
				q.added(o, false)
				truth[name] = o
			case rng.IntN(3) == 0:
				q.deleted(old, o, false)
				delete(truth, name)
			default:
				q.updated(old, o)
				truth[name] = o
			}
			if n, _ := q.depth(); n > names {
				t.Fatalf("%d entries for %d names", n, names)
			}
			for rng.IntN(4) == 0 && pop() {
			}
		}
		for pop() {
		}
		want := map[string]string{}
		for k, o := range truth {
			want[k] = o.ResourceVersion()
		}
		if diff := cmp.Diff(want, known); diff != "" {
			t.Fatalf("what the handler knows at the end (-want +got):\n%s", diff)
		}
	}
}
