package informer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"vigil/informer/internal/wire"
)

// labelled makes an object with a label that says which index values it has.
func labelled(key string, v int, label string) *Object {
	data := fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"x":%q},"resourceVersion":"%d"}}`, key, label, v)
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

// An indexer with random contents must answer as a walk over all objects does.
func TestIndexer_AnswersAsAScanDoes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	letters := func(dst []string, o *Object) []string { // several values, or none, or the same twice
		for _, r := range o.Labels().Get("x") {
			dst = append(dst, string(r))
		}
		return dst
	}
	x := newIndexer(map[string]IndexFunc{"x": ByLabel("x"), "letters": letters})
	truth := map[string]*Object{}
	var early, late sum
	x.aggregate(&early)
	values := []string{"", "a", "b", "ab", "aa", "abc"}
	for v := range 5000 {
		if v == 3000 {
			x.add("late", letters)
			x.aggregate(&late)
		}
		if v%500 == 499 { // a list that misses some and has others changed
			listed := map[string]*Object{}
			for key, o := range truth {
				switch rng.IntN(4) {
				case 0:
				case 1:
					listed[key] = labelled(key, v, values[rng.IntN(len(values))])
				default:
					listed[key] = o
				}
			}
			x.replace(listed, fmt.Sprint(v))
			truth = listed
			continue
		}
		key := fmt.Sprint("o", rng.IntN(60))
		old := truth[key]
		if old != nil && rng.IntN(3) == 0 {
			x.remove(old, fmt.Sprint(v))
			delete(truth, key)
			continue
		}
		o := labelled(key, v, values[rng.IntN(len(values))])
		x.put(old, o)
		truth[key] = o
	}
	keys := func(objects []*Object) []string {
		out := []string{}
		for _, o := range objects {
			if truth[o.Key()] != o {
				t.Errorf("%s@%s is not the newest version", o.Key(), o.ResourceVersion())
			}
			out = append(out, o.Key())
		}
		slices.Sort(out)
		return out
	}
	var size int64
	want := map[string]map[string][]string{"x": {}, "letters": {}, "late": {}}
	for _, o := range truth {
		size += int64(o.SizeBytes())
		for name, fn := range map[string]IndexFunc{"x": ByLabel("x"), "letters": letters, "late": letters} {
			vs := fn(nil, o)
			slices.Sort(vs)
			for _, v := range slices.Compact(vs) {
				want[name][v] = append(want[name][v], o.Key())
			}
		}
	}
	for name, byValue := range want {
		got := map[string][]string{}
		for _, v := range x.IndexValues(name) {
			objects, err := x.ByIndex(name, v)
			if err != nil {
				t.Fatal(err)
			}
			got[v] = keys(objects)
		}
		for _, ks := range byValue {
			slices.Sort(ks)
		}
		if diff := cmp.Diff(byValue, got); diff != "" {
			t.Errorf("index %s (-want +got):\n%s", name, diff)
		}
	}
	if got := x.SizeBytes(); got != size {
		t.Errorf("SizeBytes is %d, want %d", got, size)
	}
	if early != (sum{int64(len(truth)), size}) || late != early {
		t.Errorf("aggregates say %+v and %+v, want %d objects of %d bytes", early, late, len(truth), size)
	}
	x.Read(func(v View) {
		for key, o := range truth {
			if got, ok := v.GetByKey(key); !ok || got != o {
				t.Errorf("the view does not have %s", key)
			}
		}
		objects, err := v.ByIndex("x", "ab")
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want["x"]["ab"], keys(objects), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the view's index (-want +got):\n%s", diff)
		}
	})
	if got := x.Len(); got != len(truth) || len(keys(x.List(""))) != got {
		t.Errorf("Len is %d, want %d", got, len(truth))
	}
}

// sum counts objects and their bytes.
type sum struct{ objects, bytes int64 }

func (s *sum) Change(old, now *Object) {
	if old != nil {
		s.objects--
		s.bytes -= int64(old.SizeBytes())
	}
	if now != nil {
		s.objects++
		s.bytes += int64(now.SizeBytes())
	}
}
