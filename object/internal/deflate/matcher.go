package deflate

import (
	"encoding/binary"
	"math/bits"
)

const (
	hashBits = 14
	// inside is how many bytes lie between two places of a match that are remembered.
	inside = 4
)

// matcher finds repetitions in a buffer of texts. Its table survives from text to text.
type matcher struct {
	table  [1 << hashBits]uint32 // place+1 in buf of the latest text with that hash
	buf    []byte
	tokens []token
}

func (m *matcher) load32(i int) uint32 { return binary.LittleEndian.Uint32(m.buf[i:]) }
func (m *matcher) load64(i int) uint64 { return binary.LittleEndian.Uint64(m.buf[i:]) }

// hash5 hashes the five low bytes of x.
func hash5(x uint64) uint32 { return uint32(x << 24 * 0x9e3779b185ebca87 >> (64 - hashBits)) }

// reset forgets all texts.
func (m *matcher) reset() {
	clear(m.table[:])
	m.buf = m.buf[:0]
}

// learn remembers buf[from:] without making tokens.
func (m *matcher) learn(from int) {
	for i := from; i+8 <= len(m.buf); i += 2 {
		m.table[hash5(m.load64(i))] = uint32(i + 1)
	}
}

// tokenize replaces the matcher's tokens by those of buf[from:], which refer back no further than to buf[low].
func (m *matcher) tokenize(low, from int) {
	tokens := m.tokens[:0]
	buf, table := m.buf, &m.table
	end := len(buf) - 8 // the last place at which 8 bytes can be read
	literals := from    // start of those not yet in tokens
	repeat := 0         // the distance of the last match: texts that differ in a name go on at the same distance
	for s := from; s <= end; {
		x := m.load64(s)
		slot := &table[hash5(x)]
		at := int(*slot) - 1
		*slot = uint32(s + 1)
		if r := s - repeat; repeat > 0 && r >= low && m.load32(r) == uint32(x) {
			at = r
		} else if at < low || s-at > maxDist || m.load32(at) != uint32(x) {
			s += 1 + (s-literals)>>5 // the longer nothing repeats, the less it is looked for
			continue
		}
		length := minMatch + m.same(at+minMatch, s+minMatch)
		for at > low && s > literals && buf[at-1] == buf[s-1] {
			at, s, length = at-1, s-1, length+1
		}
		for _, b := range buf[literals:s] {
			tokens = append(tokens, token(b))
		}
		repeat = s - at
		tokens = appendMatch(tokens, length, repeat)
		for i := s + 1; i < s+length && i <= end; i += inside {
			table[hash5(m.load64(i))] = uint32(i + 1)
		}
		s += length
		literals = s
	}
	for _, b := range buf[literals:] {
		tokens = append(tokens, token(b))
	}
	m.tokens = tokens
}

// same returns how many bytes are the same at a and b, where a < b.
func (m *matcher) same(a, b int) int {
	start := b
	for ; b+8 <= len(m.buf); a, b = a+8, b+8 {
		if x := m.load64(a) ^ m.load64(b); x != 0 {
			return b - start + bits.TrailingZeros64(x)/8
		}
	}
	for b < len(m.buf) && m.buf[a] == m.buf[b] {
		a, b = a+1, b+1
	}
	return b - start
}

// appendMatch appends a match of any length; none of its parts is shorter than minMatch.
func appendMatch(tokens []token, length, dist int) []token {
	for length > maxMatch {
		n := maxMatch
		if length-n < minMatch {
			n = length - minMatch
		}
		tokens = append(tokens, match(n, dist))
		length -= n
	}
	return append(tokens, match(length, dist))
}
