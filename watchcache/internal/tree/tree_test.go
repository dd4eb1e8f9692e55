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
	for it := t.Seek(from); ; {
		i, ok := it.Next()
		if !ok {
			return out
		}
		out = append(out, i)
	}
}

// check verifies what every tree promises: order, exact separators, counts, fill.
func check(t *testing.T, tree Tree[*item]) {
	t.Helper()
	if tree.root == nil {
		return
	}
	depth := -1
	var walk func(n *node[*item], level int, root bool) int
	walk = func(n *node[*item], level int, root bool) int {
		if n.n == 0 || n.n > width {
			t.Fatalf("node with %d entries", n.n)
		}
		for _, unused := range n.items[n.n:] {
			if unused != nil {
				t.Fatal("unused slot still holds an item")
			}
		}
		if n.kids == nil {
			if depth == -1 {
				depth = level
			}
			if level != depth {
				t.Fatalf("leaf at depth %d, others at %d", level, depth)
			}
			if n.count != n.n {
				t.Fatalf("leaf of %d items counts %d", n.n, n.count)
			}
			return n.n
		}
		sum := 0
		for i, kid := range n.kids[:n.n] {
			if n.items[i] != kid.items[0] {
				t.Fatalf("separator %v is not the first item %v of its child", n.items[i], kid.items[0])
			}
			sum += walk(kid, level+1, false)
		}
		if n.count != sum {
			t.Fatalf("node counts %d items of %d", n.count, sum)
		}
		return sum
	}
	walk(tree.root, 0, true)
	if all := collect(tree, ""); !slices.IsSortedFunc(all, func(a, b *item) int { return strings.Compare(a.key, b.key) }) {
		t.Fatal("items out of order")
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
