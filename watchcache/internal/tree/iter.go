package tree

// maxDepth is enough for more items than fit into memory: each level holds at least minimum times the one above.
const maxDepth = 16

// Iter walks the items of one tree in key order. It is a value without pointers to itself: copying it copies the
// position. The zero value is at the end.
type Iter[T Keyed] struct {
	rest  []T // of the leaf, from the position on; empty only at the end
	path  [maxDepth]step[T]
	depth int // entries of path in use: the inner nodes above the leaf
}

type step[T Keyed] struct {
	n *node[T]
	i int
}

// Seek returns an iterator whose first item is the first with a key not less than from.
func (t Tree[T]) Seek(from string) Iter[T] {
	var it Iter[T]
	n := t.root
	if n == nil {
		return it
	}
	for n.kids != nil {
		i := n.childFor(from)
		it.push(n, i)
		n = n.kids[i]
	}
	i, _ := n.search(from)
	it.rest = n.items[i:n.n]
	if len(it.rest) == 0 {
		it.climb()
	}
	return it
}

func (it *Iter[T]) push(n *node[T], i int) {
	it.path[it.depth] = step[T]{n, i}
	it.depth++
}

// Next returns the item at the position and moves on. It returns false at the end.
func (it *Iter[T]) Next() (item T, ok bool) {
	if len(it.rest) == 0 {
		return item, false
	}
	item = it.rest[0]
	if it.rest = it.rest[1:]; len(it.rest) == 0 {
		it.climb()
	}
	return item, true
}

// climb leaves an exhausted leaf for the first item of the next one, or for the end.
func (it *Iter[T]) climb() {
	d := it.depth - 1
	for ; d >= 0; d-- {
		it.path[d].i++
		if it.path[d].i < it.path[d].n.n {
			break
		}
	}
	if d < 0 {
		*it = Iter[T]{}
		return
	}
	it.depth = d + 1
	n := it.path[d].n.kids[it.path[d].i]
	for n.kids != nil {
		it.push(n, 0)
		n = n.kids[0]
	}
	if it.rest = n.items[:n.n]; len(it.rest) == 0 {
		panic("tree: an empty leaf") // rather than an end before the end
	}
}
