package informer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// check returns an error for the first rule of an indexer that is broken: every index has every object under exactly its values, no
// bucket is empty or of the wrong form, and the size is that of the objects.
func (x *Indexer) check() error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var size int64
	for key, o := range x.objects.m {
		if o.key != key {
			return fmt.Errorf("%s is at %s", o.key, key)
		}
		size += int64(len(o.data))
	}
	if size != x.size {
		return fmt.Errorf("size %d, counted %d", size, x.size)
	}
	for name, ix := range x.indexes {
		want := 0
		for _, o := range x.objects.m {
			values := ix.fn(nil, o)
			slices.Sort(values)
			for _, v := range slices.Compact(values) {
				want++
				b := ix.buckets.m[v]
				if b == nil || b.many != nil && b.many.m[o.key] != o || b.many == nil && !slices.Contains(b.few, o) {
					return fmt.Errorf("index %s lacks %s under %q", name, o.key, v)
				}
			}
		}
		have := 0
		for v, b := range ix.buckets.m {
			have += b.len()
			switch {
			case b.len() == 0:
				return fmt.Errorf("index %s has nothing under %q", name, v)
			case b.few != nil && b.many != nil:
				return fmt.Errorf("index %s has both forms under %q", name, v)
			case len(b.few) > fewObjects || b.many != nil && len(b.many.m) <= fewObjects/2:
				return fmt.Errorf("index %s has %d objects in the wrong form under %q", name, b.len(), v)
			}
		}
		if have != want {
			return fmt.Errorf("index %s has %d entries, want %d", name, have, want)
		}
	}
	return nil
}

// An indexer with thousands of objects that come, change, are emptied by namespace, and are replaced by lists keeps its rules.
func TestIndexer_Large(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const n = 3000
	letters := func(dst []string, o *Object) []string {
		for _, r := range o.Labels().Get("x") {
			dst = append(dst, string(r))
		}
		return dst
	}
	x := newIndexer(map[string]IndexFunc{"x": ByLabel("x"), "letters": letters})
	truth := map[string]*Object{}
	values := []string{"", "a", "b", "ab", "aa", "abc"}
	for i := range 3000 {
		values = append(values, fmt.Sprint("v", i)) // most values have one object, a few have hundreds
	}
	version := 0
	check := func(what string) {
		t.Helper()
		if err := x.check(); err != nil {
			t.Fatalf("%s, version %d: %v", what, version, err)
		}
		if x.Len() != len(truth) {
			t.Fatalf("%s, version %d: %d objects, want %d", what, version, x.Len(), len(truth))
		}
		for key, o := range truth {
			if got, _ := x.GetByKey(key); got != o {
				t.Fatalf("%s, version %d: %s is another", what, version, key)
			}
		}
	}
	object := func(i int) *Object {
		version++
		v := values[rnd.IntN(len(values))]
		if rnd.IntN(2) == 0 {
			v = values[rnd.IntN(6)]
		}
		return labelled(fmt.Sprint("o", i), version, v)
	}
	set := func(o *Object) {
		x.put(truth[o.key], o)
		truth[o.key] = o
	}
	del := func(o *Object) {
		version++
		x.remove(o, fmt.Sprint(version))
		delete(truth, o.key)
	}
	for round := range 3 {
		for i := range n {
			set(object(i))
			if i%500 == 0 {
				check("grow")
			}
		}
		check("grown")
		for i := range n {
			if set(object(rnd.IntN(n))); i%500 == 0 {
				check("change")
			}
		}
		switch round {
		case 0: // one by one
			for i, o := range sorted(truth) {
				if del(o); i%500 == 0 || len(truth) < 20 {
					check("empty")
				}
			}
		case 1: // all of a label
			for _, v := range x.IndexValues("letters") {
				objects, err := x.ByIndex("letters", v)
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range objects {
					del(o)
				}
			}
			check("emptied by letter")
		case 2: // by lists: half, other ones, none
			for _, size := range []int{n / 2, n, 10, 0} {
				list := map[string]*Object{}
				for range size {
					o := object(rnd.IntN(n))
					if old := truth[o.key]; old != nil && rnd.IntN(2) == 0 {
						o = old
					}
					list[o.key] = o
				}
				changed := 0
				for key, o := range list {
					if truth[key] != o {
						changed++
					}
				}
				for key := range truth {
					if list[key] == nil {
						changed++
					}
				}
				if got := len(x.replace(list, "v")); got != changed {
					t.Fatalf("list of %d: %d changes, want %d", size, got, changed)
				}
				truth = list
				check("list")
			}
		}
		if len(truth) == 0 && (len(x.List("")) != 0 || len(x.IndexValues("x")) != 0 || x.SizeBytes() != 0) {
			t.Fatal("something is left")
		}
	}
}

func sorted(objects map[string]*Object) []*Object {
	var all []*Object
	for _, o := range objects {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *Object) int { return strings.Compare(a.key, b.key) })
	return all
}

// check returns an error for the first rule of a queue that is broken: its entries are those that pending names, in order, each of
// a form that can be delivered, and places outside of them hold nothing.
func (q *deltaFIFO) check() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := uint64(len(q.ring))
	if n&(n-1) != 0 || q.tail < q.head || q.tail-q.head > n || int(q.tail-q.head) != len(q.pending) {
		return fmt.Errorf("%d entries from %d to %d in a ring of %d", len(q.pending), q.head, q.tail, n)
	}
	for i := range n {
		at := q.head + i
		d := q.ring[at&(n-1)]
		if at >= q.tail {
			if d != (delta{}) {
				return fmt.Errorf("place %d behind the end holds %s", i, d.key)
			}
			continue
		}
		if q.pending[d.key] != at {
			return fmt.Errorf("entry %d of %s is pending as %d", at, d.key, q.pending[d.key])
		}
		switch {
		case d.seen != nil && d.gone == nil && d.ghost == nil && d.now != nil: // an update
		case (d.seen != nil) == (d.gone != nil) && (d.gone != nil || d.ghost != nil || d.now != nil): // lives
		default:
			return fmt.Errorf("entry of %s tells nothing: %+v", d.key, d)
		}
	}
	return nil
}

// A queue with thousands of names grows while its entries wrap around, shrinks when it is empty, and loses or repeats nothing.
func TestDeltaFIFO_Large(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const names = 5000
	q := newDeltaFIFO()
	truth, known := map[string]*Object{}, map[string]*Object{}
	h := EventHandler{
		OnAdd: func(o *Object, _ bool) {
			if known[o.key] != nil {
				t.Fatalf("add of %s, which the handler knows", o.key)
			}
			known[o.key] = o
		},
		OnUpdate: func(old, o *Object) {
			if known[o.key] != old {
				t.Fatalf("update of %s from a state that the handler does not know", o.key)
			}
			known[o.key] = o
		},
		OnDelete: func(o *Object, _ bool) {
			if known[o.key] == nil {
				t.Fatalf("delete of %s, which the handler does not know", o.key)
			}
			delete(known, o.key)
		},
	}
	order := []string{} // of the entries, as they must come out
	waits := map[string]bool{}
	note := func(key string) {
		if !waits[key] {
			waits[key] = true
			order = append(order, key)
		}
	}
	pop := func() bool {
		d, ok := q.pop()
		if ok != (len(order) > 0) || ok && d.key != order[0] {
			t.Fatalf("got %v %s, want %v", ok, d.key, order[:min(1, len(order))])
		}
		if ok {
			delete(waits, d.key)
			order = order[1:]
			h.deliver(&d)
		}
		return ok
	}
	largest, wrapped, dropped := 0, false, false
	v := 0
	for burst := range 40 {
		for range rnd.IntN(names) {
			v++
			name := fmt.Sprint("o", rnd.IntN(names))
			o, old := version(name, v), truth[name]
			switch {
			case old == nil:
				q.added(o, false)
				truth[name] = o
			case rnd.IntN(3) == 0 || burst > 35:
				q.deleted(old, o, rnd.IntN(2) == 0)
				delete(truth, name)
			case rnd.IntN(4) == 0:
				q.resync(old)
			default:
				q.updated(old, o)
				truth[name] = o
			}
			note(name)
			if rnd.IntN(3) == 0 {
				pop()
			}
			if rnd.IntN(100) == 0 {
				if err := q.check(); err != nil {
					t.Fatalf("version %d: %v", v, err)
				}
			}
		}
		largest = max(largest, len(q.ring))
		wrapped = wrapped || len(q.ring) > 0 && q.head&uint64(len(q.ring)-1) > q.tail&uint64(len(q.ring)-1)
		if burst%5 == 0 {
			for pop() {
			}
			dropped = dropped || q.ring == nil
			if len(q.pending) != 0 {
				t.Fatalf("%d names are pending", len(q.pending))
			}
		}
		if err := q.check(); err != nil {
			t.Fatalf("version %d: %v", v, err)
		}
	}
	for pop() {
	}
	if len(known) != len(truth) {
		t.Fatalf("the handler knows %d objects of %d", len(known), len(truth))
	}
	for key, o := range truth {
		if known[key] != o {
			t.Fatalf("the handler knows %s in another state", key)
		}
	}
	if largest < 4096 || !wrapped || !dropped {
		t.Errorf("the ring grew to %d, wrapped around %v, was dropped %v", largest, wrapped, dropped)
	}
}
