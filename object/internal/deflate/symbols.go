package deflate

import "math/bits"

// The alphabets of RFC 1951, section 3.2.5.
const (
	numLiterals  = 286 // literals, end of block, lengths
	numDistances = 30
	endOfBlock   = 256
	firstLength  = 257

	minMatch = 4 // DEFLATE has 3, which is seldom shorter than literals
	maxMatch = 258
	maxDist  = 32 << 10
)

// A token is a literal byte, or a match as isMatch | length<<16 | distance-1.
type token uint32

const isMatch token = 1 << 31

func match(length, dist int) token { return isMatch | token(length)<<16 | token(dist-1) }

func (t token) length() int { return int(t >> 16 & 0x1ff) }
func (t token) dist() int   { return int(t&0xffff) + 1 }

// lengthSymbol returns the symbol for a match length and its extra bits.
func lengthSymbol(length int) (symbol int, extra uint32, extraBits uint) {
	if length == maxMatch {
		return 285, 0, 0
	}
	n := uint32(length - 3)
	if n < 8 {
		return firstLength + int(n), 0, 0
	}
	e := uint(bits.Len32(n)) - 3
	return firstLength + int(4*e+uint(n>>e)), n & (1<<e - 1), e
}

// distSymbol returns the symbol for a distance and its extra bits.
func distSymbol(dist int) (symbol int, extra uint32, extraBits uint) {
	n := uint32(dist - 1)
	if n < 4 {
		return int(n), 0, 0
	}
	e := uint(bits.Len32(n)) - 2
	return int(2*e + uint(n>>e)), n & (1<<e - 1), e
}

// histogram counts the symbols of tokens.
type histogram struct {
	literals  [numLiterals]uint32
	distances [numDistances]uint32
	extra     int // bits
}

func (h *histogram) add(tokens []token) {
	for _, t := range tokens {
		if t&isMatch == 0 {
			h.literals[t]++
			continue
		}
		s, _, n := lengthSymbol(t.length())
		h.literals[s]++
		d, _, m := distSymbol(t.dist())
		h.distances[d]++
		h.extra += int(n + m)
	}
}
