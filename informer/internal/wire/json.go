package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
)

var errJSON = fmt.Errorf("%w JSON", ErrMalformed)

// skipSpace returns the place of the next byte that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the place behind the string whose opening quote is at i, or -1 when b ends before it does.
func skipString(b []byte, i int) int {
	for i++; ; {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return -1
		}
		esc := bytes.IndexByte(b[i:i+q], '\\')
		if esc < 0 {
			return i + q + 1
		}
		if i += esc + 2; i > len(b) {
			return -1
		}
	}
}

// skipValue returns the place behind the value that begins at i, or -1 when b ends before it does. It finds the end
// of well-formed JSON and does not check that it is well-formed; who decodes it will. A number at the very end of b
// counts as complete.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
	default:
		for i < len(b) {
			switch b[i] {
			case ',', '}', ']', ' ', '\n', '\r', '\t', ':':
				return i
			}
			i++
		}
		return i
	}
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			if i = skipString(b, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// members walks over the members of the JSON object b[pos:end].
type members struct {
	b   []byte
	pos int // -1 after an error

	key, value Span // of the member found last: key with its quotes
}

func walkJSON(b []byte, at int) members {
	at = skipSpace(b, at)
	if at >= len(b) || b[at] != '{' {
		return members{b: b, pos: -1}
	}
	return members{b: b, pos: at + 1}
}

// next finds the next member. It returns false at the end and on an error; failed tells them apart.
func (m *members) next() bool {
	if m.pos < 0 {
		return false
	}
	i := skipSpace(m.b, m.pos)
	if i < len(m.b) && m.b[i] == ',' {
		i = skipSpace(m.b, i+1)
	}
	if i < len(m.b) && m.b[i] == '}' {
		m.pos = i // stays there: next keeps returning false
		return false
	}
	if i >= len(m.b) || m.b[i] != '"' {
		return m.fail()
	}
	end := skipString(m.b, i)
	if end < 0 {
		return m.fail()
	}
	m.key = Span{i, end}
	if i = skipSpace(m.b, end); i >= len(m.b) || m.b[i] != ':' {
		return m.fail()
	}
	i = skipSpace(m.b, i+1)
	if end = skipValue(m.b, i); end <= i {
		return m.fail()
	}
	m.value = Span{i, end}
	m.pos = end
	return true
}

func (m *members) fail() bool {
	m.pos = -1
	return false
}

func (m *members) failed() bool { return m.pos < 0 }

// is says that the member's key is name. Keys with escapes never are: no server writes them.
func (m *members) is(name string) bool {
	return m.key.Len() == len(name)+2 && string(m.b[m.key.Start+1:m.key.End-1]) == name
}

// elements calls fn for each element of the JSON array at b[at:], until it returns an error.
func elements(b []byte, at int, fn func(Span) error) error {
	at = skipSpace(b, at)
	if at >= len(b) || b[at] != '[' {
		return errJSON
	}
	for i := at + 1; ; {
		i = skipSpace(b, i)
		if i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		}
		if i < len(b) && b[i] == ']' {
			return nil
		}
		end := skipValue(b, i)
		if end <= i {
			return errJSON
		}
		if err := fn(Span{i, end}); err != nil {
			return err
		}
		i = end
	}
}

// text returns the contents of the string at s (with its quotes), a part of b when it has no escapes.
func text(b []byte, s Span) ([]byte, bool) {
	if s.Len() < 2 || b[s.Start] != '"' {
		return nil, false
	}
	if raw := b[s.Start+1 : s.End-1]; bytes.IndexByte(raw, '\\') < 0 {
		return raw, true
	}
	var out string
	if json.Unmarshal(s.Of(b), &out) != nil {
		return nil, false
	}
	return []byte(out), true
}

// plain returns the place of the contents of the string at s. It is empty for anything but a string, and fails for a
// string with escapes: what it is used for cannot contain characters that need them.
func plain(b []byte, s Span) (Span, error) {
	if b[s.Start] != '"' {
		return Span{}, nil
	}
	in := Span{s.Start + 1, s.End - 1}
	if bytes.IndexByte(in.Of(b), '\\') >= 0 {
		return Span{}, fmt.Errorf("%w: escapes in metadata", errJSON)
	}
	return in, nil
}

// jsonMeta reads the metadata of a JSON object.
func jsonMeta(b []byte, m *Meta) error {
	*m = Meta{}
	top := walkJSON(b, 0)
	for top.next() {
		if !top.is("metadata") || b[top.value.Start] != '{' {
			continue
		}
		in := walkJSON(b, top.value.Start)
		for in.next() {
			var err error
			switch {
			case in.is("name"):
				m.Name, err = plain(b, in.value)
			case in.is("namespace"):
				m.Namespace, err = plain(b, in.value)
			case in.is("uid"):
				m.UID, err = plain(b, in.value)
			case in.is("resourceVersion"):
				m.ResourceVersion, err = plain(b, in.value)
			case in.is("annotations") && b[in.value.Start] == '{':
				an := walkJSON(b, in.value.Start)
				for an.next() {
					if an.is(initialEventsEnd) {
						m.InitialEventsEnd = string(an.value.Of(b)) == `"true"`
					}
				}
				if an.failed() {
					err = errJSON
				}
			}
			if err != nil {
				return err
			}
		}
		if in.failed() {
			return errJSON
		}
	}
	if top.failed() {
		return errJSON
	}
	return nil
}
