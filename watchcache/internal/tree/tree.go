// Package tree is a persistent, counted B+tree: every published tree is immutable and costs what changed since the
// one before it.
//
// A [Tree] is a value of one pointer; copying it is taking a snapshot. Changes go through an [Editor], which copies
// the nodes on the way to the change once and then works on its own copies until it publishes the next Tree. So a
// batch of changes copies each node at most once, whatever the number of changes below it.
//
// It is our own rather than google/btree or tidwall/btree: docs/decisions/tree.md has the figures. [Tree.Check] says whether a tree is
// as every tree must be.
package tree

import "strings"

// width is the largest number of items in a leaf and of children in an inner node. At 32 a published change of a tree of 50,000
// items copies 1.9 KB instead of 1.3 KB, and scans and lookups are about a tenth faster.
const width = 16

// minimum is the least number of entries of a node other than the root. An inner root has at least two. It is less than half of
// the width so that a node is not split and merged again by turns, and so that [Editor.split] may leave ordered keys dense.
const minimum = width / 4

// mergeFill is the most entries that two neighbours may have together to become one.
const mergeFill = width * 3 / 4

// Keyed is what a tree can hold. The key must not change. Items are compared by key bytes.
type Keyed interface {
	comparable
	Key() string
}

// Tree is an immutable ordered set of items with unique keys. The zero value is empty.
type Tree[T Keyed] struct{ root *node[T] }

// node is a leaf (kids nil) or an inner node. In an inner node items[i] is the first item of kids[i]: it is the
// separator, and because every change rewrites the way down to it, it is never a stale item.
type node[T Keyed] struct {
	owner *token // who may change this node; nobody else after publishing
	count int    // items at and below
	n     int    // entries used
	items [width]T
	kids  *[width]*node[T]
}

// token stands for one editing session. It must not have size zero: its address is its identity.
type token struct{ _ byte }

// Len returns the number of items.
func (t Tree[T]) Len() int {
	if t.root == nil {
		return 0
	}
	return t.root.count
}

// Get returns the item with the key.
func (t Tree[T]) Get(key string) (item T, ok bool) {
	n := t.root
	if n == nil {
		return item, false
	}
	for n.kids != nil {
		n = n.kids[n.childFor(key)]
	}
	if i, found := n.search(key); found {
		return n.items[i], true
	}
	return item, false
}

// Rank returns the number of items whose key is less than key.
func (t Tree[T]) Rank(key string) int {
	n := t.root
	if n == nil {
		return 0
	}
	rank := 0
	for n.kids != nil {
		i := n.childFor(key)
		for _, kid := range n.kids[:i] {
			rank += kid.count
		}
		n = n.kids[i]
	}
	i, _ := n.search(key)
	return rank + i
}

// search returns the index of the first item with a key not less than key, and whether it has that key.
func (n *node[T]) search(key string) (int, bool) {
	lo, hi := 0, n.n
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		switch c := strings.Compare(n.items[mid].Key(), key); {
		case c == 0:
			return mid, true
		case c < 0:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return lo, false
}

// childFor returns the index of the child that holds key if any does.
func (n *node[T]) childFor(key string) int {
	i, found := n.search(key)
	if found || i == 0 {
		return i
	}
	return i - 1
}

// Build returns the tree of items, which must be sorted by key without duplicates. Leaves are left a little room, so
// that the first changes do not split every one of them.
func Build[T Keyed](items []T) Tree[T] {
	if len(items) == 0 {
		return Tree[T]{}
	}
	level := make([]*node[T], 0, len(items)/buildFill+1)
	for part := range chunks(len(items)) {
		n := &node[T]{n: part.hi - part.lo, count: part.hi - part.lo}
		copy(n.items[:], items[part.lo:part.hi])
		level = append(level, n)
	}
	for len(level) > 1 {
		above := make([]*node[T], 0, len(level)/buildFill+1)
		for part := range chunks(len(level)) {
			n := newInner[T](nil)
			for _, kid := range level[part.lo:part.hi] {
				n.append(kid)
			}
			above = append(above, n)
		}
		level = above
	}
	return Tree[T]{level[0]}
}

const buildFill = width - 4

type span struct{ lo, hi int }

// chunks cuts [0,n) into runs of nearly equal size, none above buildFill.
func chunks(n int) func(yield func(span) bool) {
	return func(yield func(span) bool) {
		parts := (n + buildFill - 1) / buildFill
		for i := range parts {
			if !yield(span{i * n / parts, (i + 1) * n / parts}) {
				return
			}
		}
	}
}

func newInner[T Keyed](owner *token) *node[T] {
	return &node[T]{owner: owner, kids: new([width]*node[T])}
}

// append adds kid as the last child of an inner node that has room.
func (n *node[T]) append(kid *node[T]) {
	n.items[n.n], n.kids[n.n] = kid.items[0], kid
	n.n++
	n.count += kid.count
}
