package transcode

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// specialBytes returns a word in which the high bit of each byte of w is set that cannot be copied into a JSON string as
// it is: control characters, quote, backslash, <, >, & and everything beyond ASCII. Bytes above the lowest one set may
// be set by mistake.
func specialBytes(w uint64) uint64 {
	control := w - ones*0x20 // borrows only above a true hit
	quote := (w ^ ones*'"') - ones
	back := (w ^ ones*'\\') - ones
	less := (w ^ ones*'<') - ones
	greater := (w ^ ones*'>') - ones
	and := (w ^ ones*'&') - ones
	return ((control|quote|back|less|greater|and)&^w | w) & highs
}

// plainPrefix returns how many bytes at the beginning of s need no escaping.
func plainPrefix(s []byte) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if hit := specialBytes(binary.LittleEndian.Uint64(s[i:])); hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(s); i++ {
		if mustEscape[s[i]] {
			break
		}
	}
	return i
}

var mustEscape = func() (t [256]bool) {
	for c := range t {
		t[c] = c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
	}
	return t
}()

// appendString appends s as a JSON string as encoding/json does with HTML escaping: invalid UTF-8 becomes U+FFFD.
func appendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	for {
		n := plainPrefix(s)
		dst = append(dst, s[:n]...)
		if s = s[n:]; len(s) == 0 {
			return append(dst, '"')
		}
		var size int
		dst, size = appendEscaped(dst, s)
		s = s[size:]
	}
}

const hexDigits = "0123456789abcdef"

// appendEscaped appends the first character of s, which is not plain, and returns its size.
func appendEscaped(dst, s []byte) ([]byte, int) {
	c := s[0]
	switch {
	case c >= utf8.RuneSelf:
		r, size := utf8.DecodeRune(s)
		switch {
		case r == utf8.RuneError && size == 1:
			return append(dst, `\ufffd`...), 1
		case r == '\u2028', r == '\u2029':
			return append(dst, '\\', 'u', '2', '0', '2', hexDigits[r&0xf]), size
		}
		return append(dst, s[:size]...), size
	case c == '"', c == '\\':
		return append(dst, '\\', c), 1
	}
	switch c {
	case '\b':
		c = 'b'
	case '\f':
		c = 'f'
	case '\n':
		c = 'n'
	case '\r':
		c = 'r'
	case '\t':
		c = 't'
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf]), 1
	}
	return append(dst, '\\', c), 1
}
