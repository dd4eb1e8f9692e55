package nodecache

import (
	"iter"
	"slices"
	"sort"
	"strings"
)

// chunkSize is the most nodes of a chunk.
const chunkSize = 64

// order has nodes sorted by name, in chunks. A chunk that a snapshot has is not written to: the next change of one of its nodes copies it.
// So a snapshot costs a pointer for each chunk, and a change of a node a chunk.
type order struct {
	chunks []*chunk // none is empty
	len    int
	// epoch counts snapshots. A chunk of an earlier epoch is part of one.
	epoch uint64
}

type chunk struct {
	epoch uint64
	nodes []*Node
}

func (c *chunk) first() string { return c.nodes[0].Node.Name }

// find returns the chunk in which a node of this name is or would be, and its place there. Without chunks it returns 0, 0, false.
func (o *order) find(name string) (in, at int, found bool) {
	in = max(0, sort.Search(len(o.chunks), func(i int) bool { return o.chunks[i].first() > name })-1)
	if in == len(o.chunks) {
		return 0, 0, false
	}
	at, found = slices.BinarySearchFunc(o.chunks[in].nodes, name, func(n *Node, name string) int { return strings.Compare(n.Node.Name, name) })
	return in, at, found
}

// writable returns a chunk that no snapshot has.
func (o *order) writable(in int) *chunk {
	c := o.chunks[in]
	if c.epoch != o.epoch {
		c = &chunk{o.epoch, append(make([]*Node, 0, chunkSize+1), c.nodes...)}
		o.chunks[in] = c
	}
	return c
}

// set adds a node, or puts it in the place of the one that has its name.
func (o *order) set(n *Node) {
	if len(o.chunks) == 0 {
		o.chunks = append(o.chunks, &chunk{o.epoch, []*Node{n}})
		o.len = 1
		return
	}
	in, at, found := o.find(n.Node.Name)
	c := o.writable(in)
	if found {
		c.nodes[at] = n
		return
	}
	c.nodes = slices.Insert(c.nodes, at, n)
	o.len++
	if len(c.nodes) > chunkSize {
		half := len(c.nodes) / 2
		right := &chunk{o.epoch, append(make([]*Node, 0, chunkSize+1), c.nodes[half:]...)}
		clear(c.nodes[half:])
		c.nodes = c.nodes[:half]
		o.chunks = slices.Insert(o.chunks, in+1, right)
	}
}

// remove takes a node out. A chunk that then fits into half of one together with its neighbour is joined to it.
func (o *order) remove(name string) {
	in, at, found := o.find(name)
	if !found {
		return
	}
	c := o.writable(in)
	c.nodes = slices.Delete(c.nodes, at, at+1)
	o.len--
	if len(c.nodes) == 0 {
		o.chunks = slices.Delete(o.chunks, in, in+1)
		return
	}
	if in+1 == len(o.chunks) {
		in--
	}
	if in >= 0 && len(o.chunks[in].nodes)+len(o.chunks[in+1].nodes) <= chunkSize/2 {
		left := o.writable(in)
		left.nodes = append(left.nodes, o.chunks[in+1].nodes...)
		o.chunks = slices.Delete(o.chunks, in+1, in+2)
	}
}

// snapshot returns the nodes as they are now.
func (o *order) snapshot() *Snapshot {
	o.epoch++
	return &Snapshot{chunks: slices.Clone(o.chunks), len: o.len}
}

// Snapshot is all nodes at one moment, sorted by name. It is never changed, and needs no lock.
type Snapshot struct {
	chunks []*chunk
	len    int
}

// Len is how many nodes there are.
func (s *Snapshot) Len() int { return s.len }

// Node returns the node of this name; nil when there is none.
func (s *Snapshot) Node(name string) *Node {
	o := order{chunks: s.chunks}
	if in, at, found := o.find(name); found {
		return s.chunks[in].nodes[at]
	}
	return nil
}

// From returns all nodes, beginning with the start-th and going around.
func (s *Snapshot) From(start int) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		if s.len == 0 {
			return
		}
		in, at := 0, start%s.len
		for at >= len(s.chunks[in].nodes) {
			at -= len(s.chunks[in].nodes)
			in++
		}
		for range s.len {
			if !yield(s.chunks[in].nodes[at]) {
				return
			}
			if at++; at == len(s.chunks[in].nodes) {
				in, at = (in+1)%len(s.chunks), 0
			}
		}
	}
}
