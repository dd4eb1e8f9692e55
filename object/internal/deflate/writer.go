package deflate

import "encoding/binary"

// Writer puts bit strings one behind the other. The bytes of a bit string are filled from the lowest bit, as in RFC 1951.
type Writer struct {
	b   []byte // complete bytes
	acc uint64 // what follows them, below bit n
	n   uint   // < 8 between calls
}

// NewWriter returns a writer that appends to b.
func NewWriter(b []byte) *Writer { return &Writer{b: b} }

// put appends the n low bits of v; n is at most 56.
func (w *Writer) put(v uint64, n uint) {
	w.acc |= v << w.n
	w.n += n
	for ; w.n >= 8; w.n -= 8 {
		w.b = append(w.b, byte(w.acc))
		w.acc >>= 8
	}
}

// Append appends the first bits bits of p. Bits of p beyond them must be 0.
func (w *Writer) Append(p []byte, bits int) {
	if bits == 0 {
		return
	}
	if free := cap(w.b) - len(w.b); free < len(p)+8 {
		w.b = append(w.b, make([]byte, len(p)+8)...)[:len(w.b)]
	}
	at, acc, n := len(w.b), w.acc, w.n
	dst := w.b[:cap(w.b)]
	for ; bits >= 64; bits -= 64 {
		x := binary.LittleEndian.Uint64(p)
		binary.LittleEndian.PutUint64(dst[at:], acc|x<<n)
		acc = x >> (64 - n)
		p, at = p[8:], at+8
	}
	w.b, w.acc = dst[:at], acc
	for ; bits >= 8; bits -= 8 {
		w.put(uint64(p[0]), 8)
		p = p[1:]
	}
	if bits > 0 {
		w.put(uint64(p[0]), uint(bits))
	}
}

// Begin starts a block with the code c.
func (w *Writer) Begin(c *Code) { w.Append(c.header, c.headerBits) }

// Literal appends text without looking for repetitions. c must be complete.
func (w *Writer) Literal(c *Code, text []byte) {
	for _, b := range text {
		s := c.literals[b]
		w.put(uint64(s.word), uint(s.size))
	}
}

// end ends a block.
func (w *Writer) end(c *Code) {
	s := c.literals[endOfBlock]
	w.put(uint64(s.word), uint(s.size))
}

// Finish ends the block and the stream and fills the last byte.
func (w *Writer) Finish(c *Code) {
	w.end(c)
	w.put(3, 3) // the last block, with the fixed code ...
	w.put(0, 7) // ... and empty
	if w.n > 0 {
		w.put(0, 8-w.n)
	}
}

// Complete returns the complete bytes written so far.
func (w *Writer) Complete() []byte { return w.b }

// Reset forgets the complete bytes, which the caller has taken, and goes on in b.
func (w *Writer) Reset(b []byte) { w.b = b }

// Bits returns all that was written and how many bits it is; the last byte is filled with zeros.
func (w *Writer) Bits() ([]byte, int) {
	bits := len(w.b)*8 + int(w.n)
	if w.n > 0 {
		return append(w.b, byte(w.acc)), bits
	}
	return w.b, bits
}

// tokens appends tokens in the code c.
func (w *Writer) tokens(c *Code, tokens []token) {
	b, acc, n := w.b, w.acc, w.n
	for _, t := range tokens {
		// At most 7 bits are pending, and a match has at most 15+5+15+13.
		if t&isMatch == 0 {
			s := c.literals[t&0xff]
			acc |= uint64(s.word) << n
			n += uint(s.size)
		} else {
			i, extra, size := lengthSymbol(t.length())
			s := c.literals[i]
			acc |= (uint64(s.word) | uint64(extra)<<s.size) << n
			n += uint(s.size) + size
			i, extra, size = distSymbol(t.dist())
			s = c.distances[i]
			acc |= (uint64(s.word) | uint64(extra)<<s.size) << n
			n += uint(s.size) + size
		}
		b = binary.LittleEndian.AppendUint64(b, acc)
		b = b[:len(b)-8+int(n/8)]
		acc >>= n &^ 7
		n &= 7
	}
	w.b, w.acc, w.n = b, acc, n
}
