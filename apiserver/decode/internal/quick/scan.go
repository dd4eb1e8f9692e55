package quick

import (
	"math"
	"strings"
	"unicode/utf8"
)

// scanner reads tokens of JSON. i is where it is; a token that is not there or not well-formed leaves it anywhere.
type scanner struct {
	s string
	i int
}

// peek is the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.s) {
		return s.s[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.s) {
		switch s.s[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// skip goes over one byte if it is c.
func (s *scanner) skip(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

// end reports whether only space is left.
func (s *scanner) end() bool {
	s.space()
	return s.i == len(s.s)
}

// more goes over what follows a member or an element: a comma, when there are more, or the closing byte.
func (s *scanner) more(closing byte) (more, ok bool) {
	s.space()
	if s.skip(',') {
		return true, true
	}
	return false, s.skip(closing)
}

func (s *scanner) literal(word string) bool {
	if !strings.HasPrefix(s.s[s.i:], word) {
		return false
	}
	s.i += len(word)
	return true
}

func (s *scanner) boolean() (value, ok bool) {
	if s.literal("true") {
		return true, true
	}
	return false, s.literal("false")
}

// integer reads a number without fraction and exponent that fits.
func (s *scanner) integer() (n int64, ok bool) {
	negative := s.skip('-')
	begin := s.i
	for ; s.i < len(s.s) && '0' <= s.s[s.i] && s.s[s.i] <= '9'; s.i++ {
		digit := int64(s.s[s.i] - '0')
		if n > (math.MaxInt64-digit)/10 {
			return 0, false
		}
		n = 10*n + digit
	}
	switch digits := s.i - begin; {
	case digits == 0, digits > 1 && s.s[begin] == '0', s.peek() == '.', s.peek() == 'e', s.peek() == 'E':
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// load is eight bytes of s in one word: one instruction.
func load(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// plain goes over the bytes of a string that stand for themselves, and are ASCII.
func (s *scanner) plain() {
	for s.i+8 <= len(s.s) {
		w := load(s.s[s.i:])
		quote, backslash := w^ones*'"', w^ones*'\\'
		if (w|(w-ones*0x20)|(quote-ones)&^quote|(backslash-ones)&^backslash)&highs != 0 {
			break
		}
		s.i += 8
	}
	for s.i < len(s.s) {
		if c := s.s[s.i]; c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return
		}
		s.i++
	}
}

// text reads a string.
func (s *scanner) text() (string, bool) {
	if !s.skip('"') {
		return "", false
	}
	begin, ascii := s.i, true
	for {
		s.plain()
		switch c := s.peek(); {
		case c == '"':
			out := s.s[begin:s.i]
			s.i++
			return out, ascii || utf8.ValidString(out)
		case c == '\\':
			s.i = begin
			return s.escaped()
		case c >= utf8.RuneSelf:
			ascii = false
			s.i++
		default:
			return "", false // a control character, or the end
		}
	}
}

// escaped reads the rest of a string that has escapes.
func (s *scanner) escaped() (string, bool) {
	var b strings.Builder
	for {
		begin := s.i
		for s.plain(); s.peek() >= utf8.RuneSelf; s.plain() {
			s.i++
		}
		b.WriteString(s.s[begin:s.i])
		switch {
		case s.skip('"'):
			return b.String(), utf8.ValidString(b.String())
		case !s.skip('\\'):
			return "", false
		}
		c := s.peek()
		s.i++
		switch c {
		case '"', '\\', '/':
			b.WriteByte(c)
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			r, ok := s.hex4()
			if !ok || 0xd800 <= r && r < 0xe000 {
				return "", false // surrogates are left to the library
			}
			b.WriteRune(r)
		default:
			return "", false
		}
	}
}

func (s *scanner) hex4() (r rune, ok bool) {
	if s.i+4 > len(s.s) {
		return 0, false
	}
	for range 4 {
		c := s.s[s.i]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
		s.i++
	}
	return r, true
}
