package deflate

// Encoder compresses texts, each with regard to the one before it. It holds about 250 KB, or a few times the largest text, and is not
// safe for use by many goroutines at once. The zero value is ready.
type Encoder struct {
	m    matcher
	from int // where the text added last begins in m.buf
	low  int // where what it may refer to begins
	next int // where what the next text may refer to begins
	out  Writer
}

// keepBytes is how many bytes of texts an encoder gathers before it forgets all but the last.
const keepBytes = 128 << 10

// Begin forgets all texts. The next one stands behind before, and refers to it.
func (e *Encoder) Begin(before ...[]byte) {
	e.m.reset()
	for _, p := range before {
		e.m.buf = append(e.m.buf, p...)
	}
	e.next = max(0, len(e.m.buf)-maxDist)
	e.m.learn(e.next)
}

// Add adds the text that consists of parts. The text after it will not refer to the first private bytes of this one, so that
// its form is valid where they differ.
func (e *Encoder) Add(private int, parts ...[]byte) {
	if len(e.m.buf) > keepBytes {
		tail := e.m.buf[e.next:]
		e.m.reset()
		e.m.buf = append(e.m.buf, tail...)
		e.next = max(0, len(tail)-maxDist)
		e.m.learn(e.next)
	}
	e.low, e.from = e.next, len(e.m.buf)
	for _, p := range parts {
		e.m.buf = append(e.m.buf, p...)
	}
	e.next = e.from + private
	e.m.tokenize(e.low, e.from)
}

// Sum returns the checksum of the text added last.
func (e *Encoder) Sum() Checksum { return SumOf(e.m.buf[e.from:]) }

// ownAbove is the size in bits from which a text may have a block of its own: well above what the two headers cost.
const ownAbove = 16 << 10

// Encode returns the form of the text added last in a stream that uses c: what is to be given to [Writer.Append]. The bytes are
// valid until the next call.
func (e *Encoder) Encode(c *Code) (form []byte, bits int) {
	w := &e.out
	*w = Writer{b: w.b[:0]}
	w.tokens(c, e.m.tokens)
	if len(w.b)*8 > ownAbove {
		var h histogram
		h.add(e.m.tokens)
		if own := newCode(&h, false); own.bits(&h)+own.headerBits+c.headerBits < len(w.b)*7 {
			*w = Writer{b: w.b[:0]}
			w.end(c)
			w.Begin(own)
			w.tokens(own, e.m.tokens)
			w.end(own)
			w.Begin(c)
		}
	}
	bytes, bits := w.Bits()
	w.b = bytes
	return bytes, bits
}

// AppendBlock appends the text added last as a block with a code of its own, followed by the mark of the end of a piece: see [AppendMark].
// If nothing was added or given to Begin before it, it can stand in any stream, at the start of a byte.
func (e *Encoder) AppendBlock(dst []byte) []byte {
	var h histogram
	h.add(e.m.tokens)
	c := newCode(&h, false)
	w := NewWriter(dst)
	w.Begin(c)
	w.tokens(c, e.m.tokens)
	w.end(c)
	w.put(0, 3) // an empty stored block up to its lengths
	if w.n > 0 {
		w.put(0, 8-w.n)
	}
	return append(w.b, mark[1:]...)
}

// Big says that the encoder has grown so large that it should not be kept for reuse.
func (e *Encoder) Big() bool { return cap(e.m.buf)+4*cap(e.m.tokens)+cap(e.out.b) > 8*keepBytes }

// Sample gathers what a code is made from.
type Sample struct {
	h    histogram
	size int
}

// Add adds the text that the encoder was given last.
func (s *Sample) Add(e *Encoder) {
	s.h.add(e.m.tokens)
	s.size += len(e.m.buf) - e.from
}

// SizeBytes is the size of the texts so far.
func (s *Sample) SizeBytes() int { return s.size }

// Code returns a code for texts like those of the sample. It can express any text.
func (s *Sample) Code() *Code { return newCode(&s.h, true) }
