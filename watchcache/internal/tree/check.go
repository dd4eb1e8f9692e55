package tree

import (
	"errors"
	"fmt"
)

// Check returns an error for the first node that breaks a rule of the tree, nil when there is none. The rules are:
//
//   - every leaf is at the same depth, which is less than maxDepth;
//   - a leaf has between minimum and width items, an inner node as many children; the root alone may have fewer: a leaf
//     one item, an inner node two children;
//   - keys ascend, within a node and from one to the next;
//   - the separator in front of a child is the child's first item;
//   - a node counts the items at and below it;
//   - entries that are not in use hold nothing, so that they keep nothing in memory.
//
// Check reads every node once.
func (t Tree[T]) Check() error { return new(Checker[T]).Check(t) }

// subtree is what a parent needs to know of a sound child.
type subtree[T Keyed] struct {
	levels      int
	count       int
	first, last T
}

// Checker checks many versions of a tree. One that [NewChecker] has made reads every node once, because published nodes never change.
type Checker[T Keyed] struct {
	known map[*node[T]]subtree[T] // what has been found sound; nil: nothing is remembered
	open  *token                  // the editing session whose nodes may still change, so that they are not remembered
}

// NewChecker returns a checker that remembers what it has checked, and keeps it in memory.
func NewChecker[T Keyed]() *Checker[T] { return &Checker[T]{known: map[*node[T]]subtree[T]{}} }

// Check is [Tree.Check].
func (c *Checker[T]) Check(t Tree[T]) error { return c.tree(t) }

// Levels returns the number of levels of the tree, 0 for an empty one.
func (t Tree[T]) Levels() int {
	if t.root == nil {
		return 0
	}
	levels := 1
	for n := t.root; n.kids != nil; n = n.kids[0] {
		levels++
	}
	return levels
}

func (c *Checker[T]) tree(t Tree[T]) error {
	if t.root == nil {
		return nil
	}
	least := 1
	if t.root.kids != nil {
		least = 2
	}
	s, err := c.node(t.root, least)
	if err == nil && s.levels > maxDepth {
		err = fmt.Errorf("%d levels, iterators have room for %d", s.levels, maxDepth)
	}
	return err
}

// editor checks the state so far, and that the session has changed nothing that is published: a node of the session below one
// of another would mean that it has.
func (c *Checker[T]) editor(e *Editor[T]) error {
	c.open = e.owner
	if err := c.tree(Tree[T]{e.root}); err != nil {
		return err
	}
	if e.owner == nil || e.root == nil {
		return nil
	}
	return e.root.checkOwner(e.owner)
}

// node checks n, which must have at least so many entries, and all below it.
func (c *Checker[T]) node(n *node[T], least int) (s subtree[T], err error) {
	if n.n < least || n.n > width {
		return s, fmt.Errorf("a node has %d entries, want %d to %d", n.n, least, width)
	}
	closed := c.open == nil || n.owner != c.open
	if s, ok := c.known[n]; ok && closed {
		return s, nil
	}
	var none T
	for i, unused := range n.items[n.n:] {
		if unused != none {
			return s, fmt.Errorf("unused entry %d of a node with %d entries holds %q", n.n+i, n.n, unused.Key())
		}
	}
	s = subtree[T]{levels: 1, count: n.n, first: n.items[0], last: n.items[n.n-1]}
	if n.kids == nil {
		err = n.checkLeaf()
	} else {
		err = c.kids(n, &s)
	}
	if err != nil {
		return s, err
	}
	if n.count != s.count {
		return s, fmt.Errorf("the node of %q counts %d items of %d", n.items[0].Key(), n.count, s.count)
	}
	if c.known != nil && closed {
		c.known[n] = s
	}
	return s, nil
}

func (n *node[T]) checkLeaf() error {
	for i := 1; i < n.n; i++ {
		if a, b := n.items[i-1].Key(), n.items[i].Key(); a >= b {
			return fmt.Errorf("%q stands before %q in a leaf", a, b)
		}
	}
	return nil
}

// kids checks the children of an inner node and completes s.
func (c *Checker[T]) kids(n *node[T], s *subtree[T]) error {
	s.count = 0
	for i, kid := range n.kids {
		if (kid != nil) != (i < n.n) {
			return fmt.Errorf("a node with %d children has one too few or too many at %d", n.n, i)
		}
	}
	for i, kid := range n.kids[:n.n] {
		below, err := c.node(kid, minimum)
		switch {
		case err != nil:
			return err
		case below.first != n.items[i]:
			return fmt.Errorf("separator %q is not the first item %q of its child", n.items[i].Key(), below.first.Key())
		case i > 0 && below.first.Key() <= s.last.Key():
			return fmt.Errorf("%q stands before %q in neighbouring nodes", s.last.Key(), below.first.Key())
		case i > 0 && below.levels+1 != s.levels:
			return fmt.Errorf("leaves at %d and %d levels below the node of %q", s.levels-1, below.levels, n.items[0].Key())
		}
		s.levels = below.levels + 1
		s.count += below.count
		s.last = below.last
	}
	return nil
}

func (n *node[T]) checkOwner(owner *token) error {
	if n.kids == nil {
		return nil
	}
	for _, kid := range n.kids[:n.n] {
		switch {
		case kid.owner != owner:
		case n.owner != owner:
			return errors.New("a published node has an unpublished child")
		default:
			if err := kid.checkOwner(owner); err != nil {
				return err
			}
		}
	}
	return nil
}
