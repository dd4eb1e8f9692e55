package tree

// Editor makes new trees from an old one. It is for one goroutine.
type Editor[T Keyed] struct {
	root  *node[T]
	owner *token // nil until the first change after a Tree
}

// Edit returns an editor that starts from t, which stays as it is.
func (t Tree[T]) Edit() Editor[T] { return Editor[T]{root: t.root} }

// Tree publishes the state so far. Later changes of the editor do not show in it.
func (e *Editor[T]) Tree() Tree[T] {
	e.owner = nil
	return Tree[T]{e.root}
}

// Get returns the item with the key in the state so far.
func (e *Editor[T]) Get(key string) (T, bool) { return Tree[T]{e.root}.Get(key) }

// Len returns the number of items in the state so far.
func (e *Editor[T]) Len() int { return Tree[T]{e.root}.Len() }

// Set puts item in, in place of the one with the same key, which it returns.
func (e *Editor[T]) Set(item T) (old T, replaced bool) {
	if e.owner == nil {
		e.owner = new(token)
	}
	if e.root == nil {
		e.root = &node[T]{owner: e.owner, n: 1, count: 1}
		e.root.items[0] = item
		return old, false
	}
	root, right, old, replaced := e.set(e.root, item)
	e.root = root
	if right != nil {
		e.root = newInner[T](e.owner)
		e.root.append(root)
		e.root.append(right)
	}
	return old, replaced
}

// Delete takes the item with the key out and returns it.
func (e *Editor[T]) Delete(key string) (old T, found bool) {
	if old, found = e.Get(key); !found {
		return old, false
	}
	if e.owner == nil {
		e.owner = new(token)
	}
	e.root = e.delete(e.root, key)
	switch {
	case e.root.count == 0:
		e.root = nil
	case e.root.kids != nil && e.root.n == 1:
		e.root = e.root.kids[0]
	}
	return old, true
}

// own returns n if this session may change it, else a copy that it may change.
func (e *Editor[T]) own(n *node[T]) *node[T] {
	if n.owner == e.owner {
		return n
	}
	c := *n
	c.owner = e.owner
	if n.kids != nil {
		kids := *n.kids
		c.kids = &kids
	}
	return &c
}

// set puts item below n. It returns the node in n's place and, when that had to be split, its right half.
func (e *Editor[T]) set(n *node[T], item T) (left, right *node[T], old T, replaced bool) {
	n = e.own(n)
	if n.kids == nil {
		i, found := n.search(item.Key())
		if found {
			old, n.items[i] = n.items[i], item
			return n, nil, old, true
		}
		if n.n < width {
			n.insert(i, item, nil)
			return n, nil, old, false
		}
		right = e.split(n, i)
		if i > n.n {
			right.insert(i-n.n, item, nil)
		} else {
			n.insert(i, item, nil)
		}
		return n, right, old, false
	}
	i := n.childFor(item.Key())
	before := n.kids[i].count
	kid, kidRight, old, replaced := e.set(n.kids[i], item)
	n.kids[i], n.items[i] = kid, kid.items[0]
	n.count += kid.count - before
	if kidRight == nil {
		return n, nil, old, replaced
	}
	i++
	if n.n < width {
		n.insert(i, kidRight.items[0], kidRight)
		return n, nil, old, replaced
	}
	right = e.split(n, i)
	if i > n.n {
		right.insert(i-n.n, kidRight.items[0], kidRight)
	} else {
		n.insert(i, kidRight.items[0], kidRight)
	}
	return n, right, old, replaced
}

// split moves entries of a full node, into which one more is to go at i, to a new one: the upper half, so that both have
// room. When the new entry is the last (i == width), keys arrive in order; then it moves as few as the new node needs to have
// the minimum with the new one, so that nodes of ordered keys stay 13/16 full.
func (e *Editor[T]) split(n *node[T], i int) *node[T] {
	at := width / 2
	if i == width {
		at = width + 1 - minimum
	}
	right := &node[T]{owner: e.owner}
	if n.kids != nil {
		right.kids = new([width]*node[T])
	}
	n.moveTail(at, right)
	return right
}

// moveTail moves the entries from at on to the front of to, which has room.
func (n *node[T]) moveTail(at int, to *node[T]) {
	k, below := n.n-at, n.below(at, n.n)
	copy(to.items[k:], to.items[:to.n])
	copy(to.items[:k], n.items[at:n.n])
	clear(n.items[at:n.n])
	if n.kids != nil {
		copy(to.kids[k:], to.kids[:to.n])
		copy(to.kids[:k], n.kids[at:n.n])
		clear(n.kids[at:n.n])
	}
	n.n, n.count = at, n.count-below
	to.n, to.count = to.n+k, to.count+below
}

// moveHead moves the first k entries to the end of to, which has room.
func (n *node[T]) moveHead(k int, to *node[T]) {
	to.addHead(k, n)
	n.count -= n.below(0, k)
	copy(n.items[:], n.items[k:n.n])
	clear(n.items[n.n-k : n.n])
	if n.kids != nil {
		copy(n.kids[:], n.kids[k:n.n])
		clear(n.kids[n.n-k : n.n])
	}
	n.n -= k
}

// addHead adds the first k entries of from at the end of n, which has room. from stays as it is.
func (n *node[T]) addHead(k int, from *node[T]) {
	copy(n.items[n.n:], from.items[:k])
	if n.kids != nil {
		copy(n.kids[n.n:], from.kids[:k])
	}
	n.n += k
	n.count += from.below(0, k)
}

// below returns the number of items at and below the entries from lo to hi, without hi.
func (n *node[T]) below(lo, hi int) int {
	if n.kids == nil {
		return hi - lo
	}
	count := 0
	for _, kid := range n.kids[lo:hi] {
		count += kid.count
	}
	return count
}

// insert puts an entry at i of a node that has room.
func (n *node[T]) insert(i int, item T, kid *node[T]) {
	copy(n.items[i+1:n.n+1], n.items[i:n.n])
	n.items[i] = item
	if kid != nil {
		copy(n.kids[i+1:n.n+1], n.kids[i:n.n])
		n.kids[i] = kid
		n.count += kid.count
	} else {
		n.count++
	}
	n.n++
}

// remove takes item i out of a leaf.
func (n *node[T]) remove(i int) {
	n.close(i)
	n.count--
}

// dropKid takes child i out whose items have gone to another child.
func (n *node[T]) dropKid(i int) {
	copy(n.kids[i:], n.kids[i+1:n.n])
	n.kids[n.n-1] = nil
	n.close(i)
}

// close moves the items behind i over it.
func (n *node[T]) close(i int) {
	var none T
	copy(n.items[i:], n.items[i+1:n.n])
	n.items[n.n-1] = none
	n.n--
}

// delete takes key, which is there, out from below n. The node it returns may have one entry less than the minimum.
func (e *Editor[T]) delete(n *node[T], key string) *node[T] {
	n = e.own(n)
	if n.kids == nil {
		i, _ := n.search(key)
		n.remove(i)
		return n
	}
	i := n.childFor(key)
	kid := e.delete(n.kids[i], key)
	n.kids[i], n.items[i] = kid, kid.items[0]
	n.count--
	if kid.n < minimum {
		e.fill(n, max(i-1, 0))
	}
	return n
}

// fill mends child i or i+1 of n, which has become one entry too small: both become one when that leaves it some room, else they
// share their entries evenly. There always are two children, because every inner node has the minimum of them, and the root two.
func (e *Editor[T]) fill(n *node[T], i int) {
	a, b := e.own(n.kids[i]), n.kids[i+1]
	n.kids[i] = a
	if a.n+b.n <= mergeFill {
		a.addHead(b.n, b)
		n.items[i] = a.items[0]
		n.dropKid(i + 1)
		return
	}
	b = e.own(b)
	if half := (a.n + b.n) / 2; a.n < half {
		b.moveHead(half-a.n, a)
	} else {
		a.moveTail(half, b)
	}
	n.items[i] = a.items[0]
	n.kids[i+1], n.items[i+1] = b, b.items[0]
}
