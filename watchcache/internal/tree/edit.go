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
		if i > n.n || n.n == width {
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
	if i > n.n || n.n == width {
		right.insert(i-n.n, kidRight.items[0], kidRight)
	} else {
		n.insert(i, kidRight.items[0], kidRight)
	}
	return n, right, old, replaced
}

// split moves the upper half of a full node into a new one. An insertion behind the last entry (i == width) leaves
// the node full and the new one empty: keys that arrive in order make full leaves.
func (e *Editor[T]) split(n *node[T], i int) *node[T] {
	at := width / 2
	if i == width {
		at = width
	}
	right := &node[T]{owner: e.owner}
	if n.kids != nil {
		right.kids = new([width]*node[T])
	}
	n.moveTail(at, right)
	return right
}

// moveTail moves the entries from at on to the end of to.
func (n *node[T]) moveTail(at int, to *node[T]) {
	copy(to.items[to.n:], n.items[at:n.n])
	clear(n.items[at:n.n])
	if n.kids != nil {
		copy(to.kids[to.n:], n.kids[at:n.n])
		clear(n.kids[at:n.n])
	}
	to.n += n.n - at
	n.n = at
	n.recount()
	to.recount()
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

// remove takes entry i out.
func (n *node[T]) remove(i int) {
	var none T
	copy(n.items[i:], n.items[i+1:n.n])
	n.items[n.n-1] = none
	if n.kids == nil {
		n.count--
	} else {
		n.count -= n.kids[i].count
		copy(n.kids[i:], n.kids[i+1:n.n])
		n.kids[n.n-1] = nil
	}
	n.n--
}

func (n *node[T]) recount() {
	if n.kids == nil {
		n.count = n.n
		return
	}
	n.count = 0
	for _, kid := range n.kids[:n.n] {
		n.count += kid.count
	}
}

// delete takes key, which is there, out from below n.
func (e *Editor[T]) delete(n *node[T], key string) *node[T] {
	n = e.own(n)
	if n.kids == nil {
		i, _ := n.search(key)
		n.remove(i)
		return n
	}
	i := n.childFor(key)
	kid := e.delete(n.kids[i], key)
	n.kids[i] = kid
	n.count--
	if kid.n > 0 {
		n.items[i] = kid.items[0]
	}
	if kid.n < minimum && n.n > 1 {
		e.fill(n, max(i-1, 0))
	}
	return n
}

// fill evens out children i and i+1 of n, one of which has become too small: into one when they fit, else half and half.
func (e *Editor[T]) fill(n *node[T], i int) {
	a, b := e.own(n.kids[i]), n.kids[i+1]
	if a.n+b.n <= width*3/4 {
		b = e.own(b)
		b.moveTail(0, a)
		n.kids[i], n.items[i] = a, a.items[0]
		n.kids[i+1] = b // empty now: its items are counted in a
		n.remove(i + 1)
		return
	}
	b = e.own(b)
	var all node[T]
	half := (a.n + b.n) / 2
	if a.n > half {
		if b.kids != nil {
			all.kids = new([width]*node[T])
		}
		b.moveTail(0, &all)
		a.moveTail(half, b)
		all.moveTail(0, b)
	} else {
		b.rotate(half-a.n, a)
	}
	n.kids[i], n.items[i] = a, a.items[0]
	n.kids[i+1], n.items[i+1] = b, b.items[0]
}

// rotate moves the first k entries of n to the end of to.
func (n *node[T]) rotate(k int, to *node[T]) {
	copy(to.items[to.n:], n.items[:k])
	copy(n.items[:], n.items[k:n.n])
	clear(n.items[n.n-k : n.n])
	if n.kids != nil {
		copy(to.kids[to.n:], n.kids[:k])
		copy(n.kids[:], n.kids[k:n.n])
		clear(n.kids[n.n-k : n.n])
	}
	to.n += k
	n.n -= k
	n.recount()
	to.recount()
}
