package tree

import (
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
)

var (
	levelsFlag = flag.Int("tree.levels", 0, "the most levels that the trees of TestHistories grow to; 0 is 5, 4 with the race detector, which takes ten times as long")
	roundsFlag = flag.Int("tree.rounds", 1, "how often TestHistories tells each story, each time with another seed")
)

// op sets or deletes one of the keys of a history, which are numbered in order.
type op struct {
	key int
	del bool
}

// stories are the histories of a tree that has up to n keys. Each makes the tree grow to about n items at least once and
// empties it in the end.
var stories = map[string]func(rnd *rand.Rand, n int) iter.Seq[op]{
	"ordered": func(_ *rand.Rand, n int) iter.Seq[op] {
		return each(sets(upTo(n)), deletes(upTo(n)))
	},
	"ordered, deleted from the end": func(_ *rand.Rand, n int) iter.Seq[op] {
		return each(sets(upTo(n)), deletes(downFrom(n)))
	},
	"reversed": func(_ *rand.Rand, n int) iter.Seq[op] {
		return each(sets(downFrom(n)), deletes(downFrom(n)))
	},
	"reversed, deleted from the start": func(_ *rand.Rand, n int) iter.Seq[op] {
		return each(sets(downFrom(n)), deletes(upTo(n)))
	},
	"random": func(rnd *rand.Rand, n int) iter.Seq[op] {
		return each(sets(rnd.Perm(n)), deletes(rnd.Perm(n)))
	},
	"ordered, deleted at random": func(rnd *rand.Rand, n int) iter.Seq[op] {
		return each(sets(upTo(n)), deletes(rnd.Perm(n)))
	},
	"blocks": func(rnd *rand.Rand, n int) iter.Seq[op] {
		return each(sets(blocks(rnd, n)), deletes(blocks(rnd, n)), sets(blocks(rnd, n)), deletes(blocks(rnd, n)))
	},
	"emptied from the middle": func(_ *rand.Rand, n int) iter.Seq[op] {
		out := middleOut(n)
		return each(sets(upTo(n)), deletes(out[:n*9/10]), sets(out[:n*9/10]), deletes(out))
	},
	"emptied towards the middle": func(_ *rand.Rand, n int) iter.Seq[op] {
		in := middleOut(n)
		slices.Reverse(in)
		return each(sets(in), deletes(in))
	},
	"every seventh": func(_ *rand.Rand, n int) iter.Seq[op] {
		var strides []int
		for from := range 7 {
			for k := from; k < n; k += 7 {
				strides = append(strides, k)
			}
		}
		return each(sets(strides), deletes(strides))
	},
	"thinned": func(rnd *rand.Rand, n int) iter.Seq[op] {
		var few, most []int
		for k := range n {
			if k%29 == 0 {
				few = append(few, k)
			} else {
				most = append(most, k)
			}
		}
		rnd.Shuffle(len(most), func(i, j int) { most[i], most[j] = most[j], most[i] })
		return each(sets(upTo(n)), deletes(most), sets(most[:n/4]), deletes(few), deletes(most[:n/4]))
	},
	"churn": func(rnd *rand.Rand, n int) iter.Seq[op] {
		return func(yield func(op) bool) {
			for deletes := range 11 { // of ten
				for range n / 5 {
					if !yield(op{rnd.IntN(n), rnd.IntN(10) < deletes}) {
						return
					}
				}
			}
			each(sets(upTo(n)), deletes(rnd.Perm(n)))(yield)
		}
	},
}

func each(parts ...iter.Seq[op]) iter.Seq[op] {
	return func(yield func(op) bool) {
		for _, p := range parts {
			for o := range p {
				if !yield(o) {
					return
				}
			}
		}
	}
}

func sets(keys []int) iter.Seq[op]    { return ops(keys, false) }
func deletes(keys []int) iter.Seq[op] { return ops(keys, true) }

func ops(keys []int, del bool) iter.Seq[op] {
	return func(yield func(op) bool) {
		for _, k := range keys {
			if !yield(op{k, del}) {
				return
			}
		}
	}
}

func upTo(n int) []int {
	keys := make([]int, n)
	for i := range keys {
		keys[i] = i
	}
	return keys
}

func downFrom(n int) []int {
	keys := upTo(n)
	slices.Reverse(keys)
	return keys
}

// blocks returns the keys in runs, as of namespaces, whose order is random and each of which is in order.
func blocks(rnd *rand.Rand, n int) []int {
	const run = 97
	var keys []int
	for _, b := range rnd.Perm(n/run + 1) {
		for k := b * run; k < min(n, (b+1)*run); k++ {
			keys = append(keys, k)
		}
	}
	return keys
}

// middleOut returns the keys from the middle outwards.
func middleOut(n int) []int {
	var keys []int
	for lo, hi := n/2-1, n/2; lo >= 0 || hi < n; lo, hi = lo-1, hi+1 {
		if lo >= 0 {
			keys = append(keys, lo)
		}
		if hi < n {
			keys = append(keys, hi)
		}
	}
	return keys
}

// A tree keeps every rule at every step of every story, at every number of levels, and no published version ever changes.
func TestHistories(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	most := *levelsFlag
	if most == 0 {
		most = mostLevels
	}
	t.Logf("-tree.seed=%d -tree.levels=%d", seed, most)
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for levels, n := range map[int]int{1: 12, 2: 100, 3: 1500, 4: 6000, 5: 36000} {
				for round := range *roundsFlag {
					if levels > most {
						continue
					}
					seed := seed + uint64(round)
					h := newHistory(t, rand.New(rand.NewPCG(seed, uint64(levels))), n)
					for o := range story(h.rnd, n) {
						h.do(o)
					}
					if h.e.Len() != 0 {
						t.Errorf("%d items left", h.e.Len())
					}
					if h.levels < levels {
						t.Errorf("the tree grew to %d levels only, want %d", h.levels, levels)
					}
					h.look()
				}
			}
		})
	}
}

// version is a published tree and what it held then.
type version struct {
	tree  Tree[*item]
	count int
	want  []*item // nil: not kept
}

// history applies steps to an editor and to the stupid model of it, a slice with a place for each key.
type history struct {
	t        *testing.T
	rnd      *rand.Rand
	keys     []string
	model    []*item // by number of the key; nil: not there
	count    int     // in model
	e        Editor[*item]
	checker  *Checker[*item]
	frozen   map[*node[*item]]copied // every node ever published, as it was then
	versions []version
	steps    int
	levels   int // the most so far
}

type copied struct {
	n    node[*item]
	kids [width]*node[*item]
}

func newHistory(t *testing.T, rnd *rand.Rand, n int) *history {
	h := &history{t: t, rnd: rnd, model: make([]*item, n), checker: NewChecker[*item](), frozen: map[*node[*item]]copied{}}
	for k := range n {
		h.keys = append(h.keys, fmt.Sprintf("k%06d", k))
	}
	return h
}

// do makes one step, checks the tree, and publishes it now and then.
func (h *history) do(o op) {
	h.steps++
	var old *item
	var ok bool
	want := h.model[o.key]
	if o.del {
		old, ok = h.e.Delete(h.keys[o.key])
		h.model[o.key] = nil
	} else {
		h.model[o.key] = &item{h.keys[o.key], h.steps}
		old, ok = h.e.Set(h.model[o.key])
	}
	if want != nil {
		h.count--
	}
	if h.model[o.key] != nil {
		h.count++
	}
	if old != want || ok != (want != nil) {
		h.t.Fatalf("step %d, %+v: found %v %v, want %v", h.steps, o, old, ok, want)
	}
	if h.e.Len() != h.count {
		h.t.Fatalf("step %d: %d items, want %d", h.steps, h.e.Len(), h.count)
	}
	if err := h.checker.editor(&h.e); err != nil {
		h.t.Fatalf("step %d, %+v: %v", h.steps, o, err)
	}
	h.levels = max(h.levels, Tree[*item]{h.e.root}.Levels())
	if h.rnd.IntN(8) == 0 {
		h.publish()
	}
}

// held returns the items of the model from a key on.
func (h *history) held(from int) []*item {
	var items []*item
	for _, i := range h.model[from:] {
		if i != nil {
			items = append(items, i)
		}
	}
	return items
}

// publish publishes the state, and twenty times in a history compares all of it.
func (h *history) publish() {
	v := version{tree: h.e.Tree(), count: h.count}
	h.freeze(v.tree.root)
	if len(h.versions)%(len(h.keys)/20+1) == 0 {
		v.want = h.held(0)
		h.read(v)
	}
	h.versions = append(h.versions, v)
}

// read compares what can be read at some places of a version with what it holds.
func (h *history) read(v version) {
	for range 20 {
		from := h.rnd.IntN(len(h.keys))
		key, want := h.keys[from], h.held(from)
		if got := v.tree.Rank(key); got != len(v.want)-len(want) {
			h.t.Fatalf("step %d: rank of %s is %d, want %d", h.steps, key, got, len(v.want)-len(want))
		}
		if got, ok := v.tree.Get(key); ok != (h.model[from] != nil) || got != h.model[from] {
			h.t.Fatalf("step %d: get %s: %v %v, want %v", h.steps, key, got, ok, h.model[from])
		}
		if got := collect(v.tree, key); !slices.Equal(got, want) {
			h.t.Fatalf("step %d: seek %s finds %d other items than %d", h.steps, key, len(got), len(want))
		}
	}
}

// freeze remembers how the nodes at and below n are that have not been published before.
func (h *history) freeze(n *node[*item]) {
	if n == nil {
		return
	}
	if _, ok := h.frozen[n]; ok {
		return
	}
	c := copied{n: *n}
	if n.kids != nil {
		c.kids = *n.kids
		for _, kid := range n.kids[:n.n] {
			h.freeze(kid)
		}
	}
	h.frozen[n] = c
}

// look compares everything that has been published with what it was then.
func (h *history) look() {
	for n, was := range h.frozen {
		if *n != was.n || n.kids != nil && *n.kids != was.kids {
			h.t.Fatalf("a published node of %v has changed", was.n.items[0])
		}
	}
	for i, v := range h.versions {
		if v.tree.Len() != v.count {
			h.t.Fatalf("version %d counts %d items, had %d", i, v.tree.Len(), v.count)
		}
		if v.want == nil {
			continue
		}
		if err := v.tree.Check(); err != nil {
			h.t.Fatalf("version %d: %v", i, err)
		}
		if got := collect(v.tree, ""); !slices.Equal(got, v.want) {
			h.t.Fatalf("version %d holds %d other items than the %d it had", i, len(got), len(v.want))
		}
	}
}

// The 257th item in order once stood alone below an inner node of its own; deleting it left an empty leaf, on which
// iterators panicked.
func TestEditor_DeleteBelowOnlyChild(t *testing.T) {
	var e Editor[*item]
	const n = width*width + 1
	for k := range n {
		e.Set(&item{key: fmt.Sprintf("k%03d", k)})
	}
	e.Delete(fmt.Sprintf("k%03d", n-1))
	if got := len(collect(e.Tree(), "")); got != n-1 {
		t.Errorf("%d items, want %d", got, n-1)
	}
	if got := len(collect(e.Tree(), fmt.Sprintf("k%03d", n-1))); got != 0 {
		t.Errorf("%d items behind the last", got)
	}
	check(t, e.Tree())
}
