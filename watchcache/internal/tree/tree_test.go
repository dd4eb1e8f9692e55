package tree

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var seedFlag = flag.Uint64("tree.seed", 0, "seed of the random tests; 0 picks one")

type item struct {
	key string
	ver int
}

func (i *item) Key() string { return i.key }

func collect(t Tree[*item], from string) []*item {
	var out []*item
	it := t.Seek(from)
	for {
		i, ok := it.Next()
		if !ok {
			return out
		}
		out = append(out, i)
	}
}

func check(t *testing.T, tree Tree[*item]) {
	t.Helper()
	if err := tree.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestEditor_AgainstMap(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-tree.seed=%d", seed)
	for _, space := range []int{5, 60, 700, 6000} {
		rnd := rand.New(rand.NewPCG(seed, uint64(space)))
		model := map[string]*item{}
		sorted := func() []*item {
			var out []*item
			for _, i := range model {
				out = append(out, i)
			}
			slices.SortFunc(out, func(a, b *item) int { return strings.Compare(a.key, b.key) })
			return out
		}
		type published struct {
			tree Tree[*item]
			want []*item
		}
		var history []published
		var e Editor[*item]
		sound := NewChecker[*item]()
		grow := true
		for step := range 6 * space {
			if step%space == 0 {
				grow = !grow || step == 0
			}
			key := fmt.Sprintf("k%05d", rnd.IntN(space))
			if del := rnd.IntN(10) < 3; del == grow && rnd.IntN(4) > 0 {
				key = fmt.Sprintf("k%05d", step%space) // also runs of keys in order
			}
			if (rnd.IntN(10) < 3) == grow {
				old, found := e.Delete(key)
				if want := model[key]; old != want || found != (want != nil) {
					t.Fatalf("delete %s: got %v %v, want %v", key, old, found, want)
				}
				delete(model, key)
			} else {
				i := &item{key, step}
				old, replaced := e.Set(i)
				if want := model[key]; old != want || replaced != (want != nil) {
					t.Fatalf("set %s: got %v %v, want %v", key, old, replaced, want)
				}
				model[key] = i
			}
			if e.Len() != len(model) {
				t.Fatalf("len %d, want %d", e.Len(), len(model))
			}
			if err := sound.editor(&e); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			if rnd.IntN(3) == 0 {
				e.Tree() // the next change has to copy
			}
			if rnd.IntN(space/4+1) == 0 {
				history = append(history, published{e.Tree(), sorted()})
			}
		}
		history = append(history, published{e.Tree(), sorted()})
		for _, h := range history {
			check(t, h.tree)
			if diff := cmp.Diff(h.want, collect(h.tree, ""), cmp.Comparer(func(a, b *item) bool { return a == b }), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("published tree changed (-want +got):\n%s", diff)
			}
			from := fmt.Sprintf("k%05d", rnd.IntN(space))
			rank, _ := slices.BinarySearchFunc(h.want, from, func(i *item, key string) int { return strings.Compare(i.key, key) })
			if got := h.tree.Rank(from); got != rank {
				t.Fatalf("rank of %s is %d, want %d", from, got, rank)
			}
			if got := collect(h.tree, from); len(got) != len(h.want)-rank || (len(got) > 0 && got[0] != h.want[rank]) {
				t.Fatalf("seek %s finds %d items, want %d", from, len(got), len(h.want)-rank)
			}
			got, ok := h.tree.Get(from)
			if want := rank < len(h.want) && h.want[rank].key == from; ok != want || (ok && got != h.want[rank]) {
				t.Fatalf("get %s: %v %v", from, got, ok)
			}
		}
	}
}

func TestBuild(t *testing.T) {
	for _, n := range []int{0, 1, buildFill, buildFill + 1, 1000, 30000} {
		items := make([]*item, n)
		for i := range items {
			items[i] = &item{key: fmt.Sprintf("k%05d", i)}
		}
		built := Build(items)
		check(t, built)
		if got := collect(built, ""); !slices.Equal(got, items) {
			t.Errorf("built tree of %d items holds others: %d", n, len(got))
		}
		e := built.Edit()
		for i := 0; i < n; i += 7 {
			e.Delete(items[i].key)
		}
		check(t, e.Tree())
		check(t, built)
		if want := n - (n+6)/7; e.Len() != want {
			t.Errorf("%d items left of %d, want %d", e.Len(), n, want)
		}
	}
}

// A published tree costs the way to the change, whatever the size of a batch.
func TestEditor_BatchCopiesOnce(t *testing.T) {
	items := make([]*item, 50000)
	for i := range items {
		items[i] = &item{key: fmt.Sprintf("/registry/pods/ns-%03d/pod-%05d", i/500, i)}
	}
	e := Build(items).Edit()
	one := testing.AllocsPerRun(100, func() { e.Set(items[777]); e.Tree() })
	many := testing.AllocsPerRun(100, func() {
		for range 1000 {
			e.Set(items[777])
		}
		e.Tree()
	})
	if one != many || one > 10 {
		t.Errorf("one change makes %v allocations, 1000 changes of the same item %v; want the same, at most 10", one, many)
	}
}

// Check finds every kind of damage.
func TestTree_Check(t *testing.T) {
	items := make([]*item, 1000)
	for i := range items {
		items[i] = &item{key: fmt.Sprintf("k%05d", i)}
	}
	leaf := func(n *node[*item]) *node[*item] {
		for n.kids != nil {
			n = n.kids[1]
		}
		return n
	}
	for name, damage := range map[string]func(root *node[*item]){
		"an unused entry holds an item": func(root *node[*item]) { leaf(root).items[width-1] = items[0] },
		"a leaf out of order": func(root *node[*item]) {
			l := leaf(root)
			l.items[1], l.items[2] = l.items[2], l.items[1]
		},
		"an empty leaf":       func(root *node[*item]) { *leaf(root) = node[*item]{} },
		"a wrong count":       func(root *node[*item]) { leaf(root).count++ },
		"a wrong count above": func(root *node[*item]) { root.count-- },
		"a stale separator":   func(root *node[*item]) { root.items[1] = &item{key: root.items[1].key} },
		"a child too few":     func(root *node[*item]) { root.kids[1].n-- },
		"a missing child":     func(root *node[*item]) { root.kids[1] = nil },
		"a child too high":    func(root *node[*item]) { root.kids[1] = leaf(root) },
		"an only child":       func(root *node[*item]) { *root = node[*item]{n: 1, items: root.items, kids: root.kids} },
		"neighbours exchanged": func(root *node[*item]) {
			root.kids[0].kids[0], root.kids[0].kids[1] = root.kids[0].kids[1], root.kids[0].kids[0]
		},
		"neighbours overlap": func(root *node[*item]) {
			root.kids[0].kids[0].items[root.kids[0].kids[0].n-1] = root.kids[1].items[0]
		},
	} {
		built := Build(items)
		damage(built.root)
		if err := built.Check(); err == nil {
			t.Errorf("%s: not found", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
	built := Build(items)
	e := built.Edit()
	e.Set(items[0])
	e.root.kids[0].owner, e.root.owner = e.owner, nil
	if err := new(Checker[*item]).editor(&e); err == nil {
		t.Error("a change of a published node: not found")
	}
}
