package deflate

import (
	"math/bits"
	"slices"
)

// Code is a pair of Huffman codes, one for literals and lengths and one for distances. It is immutable.
type Code struct {
	literals  [numLiterals]symbol
	distances [numDistances]symbol

	header     []byte // the start of a block that is not the last, with this code
	headerBits int
}

// symbol is a code word: its bits in the order in which they are sent, and how many.
type symbol struct {
	word uint16
	size uint8
}

// newCode returns the best code for texts of which h is typical. With complete set every symbol has a word, so that the code
// can express any text.
func newCode(h *histogram, complete bool) *Code {
	literals, distances := h.literals, h.distances
	literals[endOfBlock]++
	if complete {
		for i := range literals {
			literals[i] = max(literals[i], 1)
		}
		for i := range distances {
			distances[i] = max(distances[i], 1)
		}
	}
	c := &Code{}
	assign(c.literals[:], literals[:], 15)
	assign(c.distances[:], distances[:], 15)
	c.makeHeader()
	return c
}

// bits is the length of a text with the histogram h, without header and end.
func (c *Code) bits(h *histogram) int {
	n := h.extra
	for i, count := range h.literals {
		n += int(count) * int(c.literals[i].size)
	}
	for i, count := range h.distances {
		n += int(count) * int(c.distances[i].size)
	}
	return n
}

// assign gives every symbol that occurs a word of a prefix code of at most limit bits. A single symbol gets one bit, as RFC 1951
// asks for distances.
func assign(symbols []symbol, counts []uint32, limit uint8) {
	counts = slices.Clone(counts)
	for !sizes(symbols, counts, limit) {
		// Too deep a tree: flatten what it is made from.
		for i, n := range counts {
			if n > 0 {
				counts[i] = n/2 | 1
			}
		}
	}
	var words, of [16]uint16
	for _, s := range symbols {
		of[s.size]++
	}
	of[0] = 0
	for n, word := 1, uint16(0); n < len(words); n++ {
		word = (word + of[n-1]) << 1
		words[n] = word
	}
	for i := range symbols {
		if s := &symbols[i]; s.size > 0 {
			s.word = bits.Reverse16(words[s.size]) >> (16 - s.size)
			words[s.size]++
		}
	}
}

// sizes finds the lengths of the words by Huffman's algorithm. It reports false when one would be longer than limit.
func sizes(symbols []symbol, counts []uint32, limit uint8) bool {
	type node struct {
		count  uint32
		index  int // of the leaf
		parent int // in the list of all nodes
	}
	nodes := make([]node, 0, 2*len(counts))
	for i, n := range counts {
		symbols[i] = symbol{}
		if n > 0 {
			nodes = append(nodes, node{count: n, index: i})
		}
	}
	leaves := len(nodes)
	if leaves < 2 {
		for _, n := range nodes {
			symbols[n.index].size = 1
		}
		return true
	}
	slices.SortStableFunc(nodes, func(a, b node) int { return int(a.count) - int(b.count) })
	// Inner nodes come into being in the order of their counts, so the two lightest are always at one of two fronts.
	leaf, inner := 0, leaves
	lightest := func() int {
		if leaf < leaves && (inner == len(nodes) || nodes[leaf].count <= nodes[inner].count) {
			leaf++
			return leaf - 1
		}
		inner++
		return inner - 1
	}
	for range leaves - 1 {
		a := lightest()
		b := lightest()
		nodes[a].parent, nodes[b].parent = len(nodes), len(nodes)
		nodes = append(nodes, node{count: nodes[a].count + nodes[b].count})
	}
	depth := make([]uint8, len(nodes))
	for i := len(nodes) - 2; i >= 0; i-- {
		depth[i] = depth[nodes[i].parent] + 1
		if i < leaves {
			if depth[i] > limit {
				return false
			}
			symbols[nodes[i].index].size = depth[i]
		}
	}
	return true
}

// codeLengthOrder is the order in which the lengths of the words that describe lengths are sent.
var codeLengthOrder = [...]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// makeHeader composes the header of a dynamic block, RFC 1951 section 3.2.7.
func (c *Code) makeHeader() {
	var lengths []uint8
	for _, s := range c.literals {
		lengths = append(lengths, s.size)
	}
	for _, s := range c.distances {
		lengths = append(lengths, s.size)
	}
	runs := runLengths(lengths)
	var counts [19]uint32
	for _, r := range runs {
		counts[r.symbol]++
	}
	var words [19]symbol
	assign(words[:], counts[:], 7)
	w := NewWriter(nil)
	w.put(0, 1) // not the last block
	w.put(2, 2) // dynamic
	w.put(numLiterals-257, 5)
	w.put(numDistances-1, 5)
	w.put(uint64(len(codeLengthOrder)-4), 4)
	for _, i := range codeLengthOrder {
		w.put(uint64(words[i].size), 3)
	}
	for _, r := range runs {
		w.put(uint64(words[r.symbol].word), uint(words[r.symbol].size))
		w.put(uint64(r.extra), uint(r.extraBits))
	}
	c.header, c.headerBits = w.Bits()
}

// run is a symbol of the code of code lengths: a length, or a repetition.
type run struct{ symbol, extra, extraBits uint8 }

func runLengths(lengths []uint8) []run {
	var runs []run
	for i := 0; i < len(lengths); {
		n := 1
		for i+n < len(lengths) && lengths[i+n] == lengths[i] {
			n++
		}
		size := lengths[i]
		i += n
		if size != 0 {
			runs = append(runs, run{symbol: size})
			n--
		}
		for n > 0 {
			switch {
			case size != 0 && n >= 3:
				k := min(n, 6)
				runs = append(runs, run{16, uint8(k - 3), 2})
				n -= k
			case size == 0 && n >= 11:
				k := min(n, 138)
				runs = append(runs, run{18, uint8(k - 11), 7})
				n -= k
			case size == 0 && n >= 3:
				runs = append(runs, run{17, uint8(n - 3), 3})
				n = 0
			default:
				runs = append(runs, run{symbol: size})
				n--
			}
		}
	}
	return runs
}
