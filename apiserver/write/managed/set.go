package managed

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A set of fields is JSON of nested objects (FieldsV1). A key is a step of a path: "f:name" a field or map key,
// `k:{"name":"x"}` a list element with these keys, `v:"x"` an element of a list of scalars. What has no content is a member of
// the set; so is what contains ".". Keys are sorted.

// encoder writes a set whose members come in order, parents before children.
type encoder struct {
	buf   []byte
	open  []level
	count int // members
}

type level struct {
	key     string // quoted
	member  bool
	content bool
}

func (e *encoder) reset() { e.buf, e.open, e.count = append(e.buf[:0], '{'), e.open[:0], 0 }

// member adds a path of quoted keys.
func (e *encoder) member(path []string) {
	e.count++
	common := 0
	for common < len(e.open) && common < len(path) && e.open[common].key == path[common] {
		common++
	}
	e.close(common)
	for _, key := range path[common:] {
		if n := len(e.open); n > 0 {
			parent := &e.open[n-1]
			if parent.member && !parent.content {
				e.buf = append(e.buf, `".":{}`...)
				parent.content = true
			}
			if parent.content {
				e.buf = append(e.buf, ',')
			}
			parent.content = true
		} else if len(e.buf) > 1 {
			e.buf = append(e.buf, ',')
		}
		e.buf = append(append(e.buf, key...), ':', '{')
		e.open = append(e.open, level{key: key})
	}
	if n := len(e.open); n > 0 {
		e.open[n-1].member = true
	}
}

func (e *encoder) close(depth int) {
	for len(e.open) > depth {
		e.open = e.open[:len(e.open)-1]
		e.buf = append(e.buf, '}')
	}
}

// set ends the set and returns it. It is valid until the next reset.
func (e *encoder) set() []byte {
	e.close(0)
	return append(e.buf, '}')
}

// inside yields the keys of an object whose values are objects, quoted, and the values.
func inside(object []byte) func(yield func(key, inner []byte) bool) {
	return func(yield func(key, inner []byte) bool) {
		for i := 1; i < len(object) && object[i] == '"'; i++ { // behind the comma
			end := stringEnd(object, i)
			start := min(end+1, len(object)) // behind the colon
			key := object[i:end]
			i = objectEnd(object, start)
			if !yield(key, object[start:i]) {
				return
			}
		}
	}
}

// stringEnd is the index behind the string that begins at i.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// objectEnd is the index behind the object that begins at i.
func objectEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
			continue
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(b)
}

// plain says that a set is written as this package and the library write it: without white space.
func plain(set []byte) bool {
	for i := 0; i < len(set); {
		switch set[i] {
		case '"':
			i = stringEnd(set, i)
			continue
		case '{', '}', ':', ',':
			i++
		default:
			return false
		}
	}
	return len(set) >= len("{}")
}

// decode reads a set.
func decode(set []byte) (*fieldpath.Set, error) {
	s := &fieldpath.Set{}
	return s, s.FromJSON(bytes.NewReader(set))
}

// quoteField is the key of a field or a map's key.
func quoteField(name string) string {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c == '"' || c == '\\' {
			return quote("f:" + name)
		}
	}
	return `"f:` + name + `"`
}

// quote writes a key as the library does: like JSON, but nothing that is not ASCII is escaped.
func quote[T string | []byte](s T) string {
	const hex = "0123456789abcdef"
	b := append(make([]byte, 0, 128), '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

// simple says that a string is the same in JSON but for quotes around it.
func simple(s string) bool {
	ascii := true
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&':
			return false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	// The two separators that JavaScript takes for ends of lines are escaped.
	return ascii || utf8.ValidString(s) && !strings.ContainsAny(s, "\u2028\u2029")
}

// append adds a scalar in JSON.
func (s scalar) append(b []byte) ([]byte, bool) {
	switch s.kind {
	case textual:
		b = append(append(append(b, '"'), s.text...), '"')
		return b, simple(s.text)
	case numeric:
		return strconv.AppendInt(b, s.number, 10), true
	}
	return b, false
}
