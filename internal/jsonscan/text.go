package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// plain has true for the bytes of a string that need no closer look.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 256; c++ {
		t[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' && c != 0xe2
	}
	return t
}()

// plainRun returns how many of the eight bytes of w, from the lowest, are plain ASCII.
func plainRun(w uint64) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	// Each term has the high bit of a byte set where the byte is below 0x20, or equal to the character. A borrow can
	// set it in bytes above the lowest true one only.
	hit := (w - ones*0x20) | (w ^ ones*'"' - ones) | (w ^ ones*'\\' - ones) | (w ^ ones*'<' - ones) | (w ^ ones*'>' - ones) | (w ^ ones*'&' - ones)
	return bits.TrailingZeros64((hit&^w|w)&highs) / 8
}

// str returns the offset behind the string whose opening quote is at i, or -1.
func (s *scanner) str(i int) int {
	b := s.b
	for i++; i < len(b); i++ {
		for i+8 <= len(b) {
			n := plainRun(binary.LittleEndian.Uint64(b[i:]))
			if i += n; n < 8 {
				break
			}
		}
		if i >= len(b) {
			return -1
		}
		c := b[i]
		if plain[c] {
			continue
		}
		switch {
		case c == '"':
			return i + 1
		case c < 0x20:
			return -1
		case c == '\\':
			if i = s.escape(i + 1); i < 0 {
				return -1
			}
		case c == 0xe2: // U+2028 and U+2029 are e2 80 a8 and e2 80 a9
			if i+2 < len(b) && b[i+1] == 0x80 && b[i+2]&^1 == 0xa8 {
				s.style |= Escapable
			}
		default:
			s.style |= Escapable
		}
	}
	return -1
}

// escape returns the offset of the last byte of the escape whose letter is at i, or -1.
func (s *scanner) escape(i int) int {
	if i >= len(s.b) {
		return -1
	}
	switch s.b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		if i+4 >= len(s.b) {
			return -1
		}
		for _, c := range s.b[i+1 : i+5] {
			if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
				return -1
			}
		}
		return i + 4
	}
	return -1
}
