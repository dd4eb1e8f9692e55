package wire

import (
	"fmt"
	"io"
)

const (
	firstBuffer = 2 << 10  // of a stream that has little to say: a node's
	minBuffer   = 32 << 10 // two TLS records
	keepBuffer  = 1 << 20  // a larger one is dropped once it is empty
)

// buffer reads ahead from r and hands out runs of bytes without copying them.
type buffer struct {
	r   io.Reader
	b   []byte
	pos int // b[pos:end] has been read and not yet taken
	end int
	err error // of r, once it has failed

	filled bool // the last read has filled b: a larger one would have got more
}

// have returns what has been read and not yet taken. It is valid until the next fill.
func (u *buffer) have() []byte { return u.b[u.pos:u.end] }

// take says that n bytes of have are used up.
func (u *buffer) take(n int) { u.pos += n }

// fill reads until at least n bytes are there. It fails with io.EOF when the input ended before the first of them, with
// io.ErrUnexpectedEOF when it ended later, and otherwise as the reader did.
func (u *buffer) fill(n int) error {
	if n > MaxObject+64 {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
	}
	for u.end-u.pos < n {
		if u.err != nil {
			if u.err == io.EOF && u.end > u.pos {
				return io.ErrUnexpectedEOF
			}
			return u.err
		}
		u.makeRoom(n)
		m, err := u.r.Read(u.b[u.end:])
		u.end += m
		u.err = err
		u.filled = u.end == len(u.b)
	}
	return nil
}

// makeRoom makes sure that there is room to read into. The buffer at most doubles at a time, so that a length that
// lies costs no memory.
func (u *buffer) makeRoom(n int) {
	if u.pos == u.end {
		u.pos, u.end = 0, 0
		switch {
		case len(u.b) > keepBuffer && n <= minBuffer:
			u.b = nil
		case u.filled && len(u.b) < minBuffer:
			u.b = make([]byte, min(4*len(u.b), minBuffer))
		}
	}
	if u.end < len(u.b) && (u.pos == 0 || len(u.b)-u.pos >= n) {
		return
	}
	if u.pos > 0 {
		u.end = copy(u.b, u.b[u.pos:u.end])
		u.pos = 0
		return
	}
	grown := make([]byte, max(firstBuffer, 2*len(u.b)))
	u.end = copy(grown, u.b[:u.end])
	u.b = grown
}

// more reads once more, whatever is there. It returns io.EOF when there is nothing more.
func (u *buffer) more() error { return u.fill(u.end - u.pos + 1) }
