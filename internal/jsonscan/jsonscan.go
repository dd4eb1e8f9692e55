// Package jsonscan finds its way in JSON text without decoding it.
//
// It accepts exactly what encoding/json accepts (RFC 8259, nested at most 10000 deep, invalid UTF-8 tolerated inside
// strings), never panics and never reads outside the slice it is given.
package jsonscan

// Style tells how a value is written.
type Style uint8

const (
	// Spaced is set when there is white space outside strings.
	Spaced Style = 1 << iota
	// Escapable is set when a string holds a byte that encoding/json would write differently inside a raw message:
	// <, >, & or the beginning of U+2028 and U+2029.
	Escapable
)

// maxDepth is encoding/json's limit for nesting.
const maxDepth = 10000

// Value returns the end of the JSON value that begins at b[i], white space before it included, and how it is written.
// It reports false when there is no valid value.
func Value(b []byte, i int) (end int, style Style, ok bool) {
	s := scanner{b: b}
	end = s.value(i, 0)
	return end, s.style, end >= 0
}

// Valid reports whether b is one JSON value and nothing else but white space, and how it is written.
func Valid(b []byte) (style Style, ok bool) {
	s := scanner{b: b}
	end := s.value(0, 0)
	if end < 0 {
		return 0, false
	}
	return s.style, s.space(end) == len(b)
}

type scanner struct {
	b     []byte
	style Style
}

// space returns the first offset at or behind i that is no white space.
func (s *scanner) space(i int) int {
	for i < len(s.b) {
		switch s.b[i] {
		case ' ', '\t', '\n', '\r':
			s.style |= Spaced
			i++
		default:
			return i
		}
	}
	return i
}

// value returns the end of the value at i, or -1.
func (s *scanner) value(i, depth int) int {
	if i = s.space(i); i >= len(s.b) || depth > maxDepth {
		return -1
	}
	switch c := s.b[i]; c {
	case '{':
		return s.object(i+1, depth+1)
	case '[':
		return s.array(i+1, depth+1)
	case '"':
		return s.str(i)
	case 't':
		return s.word(i, "true")
	case 'f':
		return s.word(i, "false")
	case 'n':
		return s.word(i, "null")
	default:
		return s.number(i)
	}
}

func (s *scanner) object(i, depth int) int {
	if depth > maxDepth {
		return -1
	}
	if i = s.space(i); i < len(s.b) && s.b[i] == '}' {
		return i + 1
	}
	for i < len(s.b) && s.b[i] == '"' {
		if i = s.str(i); i < 0 {
			return -1
		}
		if i = s.space(i); i >= len(s.b) || s.b[i] != ':' {
			return -1
		}
		if i = s.value(i+1, depth); i < 0 {
			return -1
		}
		if i = s.space(i); i >= len(s.b) {
			return -1
		}
		switch s.b[i] {
		case '}':
			return i + 1
		case ',':
			i = s.space(i + 1)
		default:
			return -1
		}
	}
	return -1
}

func (s *scanner) array(i, depth int) int {
	if depth > maxDepth {
		return -1
	}
	if i = s.space(i); i < len(s.b) && s.b[i] == ']' {
		return i + 1
	}
	for i < len(s.b) {
		if i = s.value(i, depth); i < 0 {
			return -1
		}
		if i = s.space(i); i >= len(s.b) {
			return -1
		}
		switch s.b[i] {
		case ']':
			return i + 1
		case ',':
			i++
		default:
			return -1
		}
	}
	return -1
}

func (s *scanner) word(i int, w string) int {
	if len(s.b)-i < len(w) || string(s.b[i:i+len(w)]) != w {
		return -1
	}
	return i + len(w)
}

func (s *scanner) number(i int) int {
	if s.at(i) == '-' {
		i++
	}
	switch c := s.at(i); {
	case c == '0':
		i++
	case '1' <= c && c <= '9':
		i = s.digits(i)
	default:
		return -1
	}
	if s.at(i) == '.' {
		if next := s.digits(i + 1); next > i+1 {
			i = next
		} else {
			return -1
		}
	}
	if s.at(i)|0x20 == 'e' {
		i++
		if c := s.at(i); c == '+' || c == '-' {
			i++
		}
		next := s.digits(i)
		if next == i {
			return -1
		}
		i = next
	}
	return i
}

// at returns the byte at i, 0 behind the end.
func (s *scanner) at(i int) byte {
	if i < len(s.b) {
		return s.b[i]
	}
	return 0
}

func (s *scanner) digits(i int) int {
	for i < len(s.b) && '0' <= s.b[i] && s.b[i] <= '9' {
		i++
	}
	return i
}
