package bounds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"vigil/kinds/validate"
)

// JSON checks an object of the plan's type. It says nothing about what is not well-formed: decoders refuse that before they decode anything.
func (p *Plan) JSON(data []byte) error {
	if p.root == nil {
		return nil
	}
	s := &scanner{data: data}
	if err := s.value(p.root, 1); !errors.Is(err, errSyntax) {
		return err
	}
	return nil
}

// Depth checks that JSON is nested at most so deep; data need not be well-formed.
func Depth(data []byte, most int) error {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > most {
				return fmt.Errorf("exceeded max depth: JSON is nested more than %d deep", most)
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

var errSyntax = errors.New("not well-formed")

// scanner goes over values of JSON. i is where it is.
type scanner struct {
	data []byte
	i    int
}

// value checks the value that comes next. depth counts the objects around it, and itself.
func (s *scanner) value(n *node, depth int) error {
	s.space()
	c := s.peek()
	switch {
	case n == nil:
		return s.skip()
	case n.kind == quantity:
		return s.quantity()
	case n.kind == choice && c == '[', n.kind == list && c == '[':
		return s.elements(func() error { return s.value(n.elem, depth) })
	case n.kind == choice && c == '{':
		return s.value(n.elem, depth)
	case n.kind == dictionary && c == '{':
		return s.members(func([]byte) error { return s.value(n.elem, depth) })
	case n.kind == structure && c == '{':
		if depth > maxMessages {
			return errTooDeep
		}
		return s.members(func(name []byte) error { return s.value(n.byName[string(name)], depth+1) })
	default:
		return s.skip()
	}
}

// quantityText copies only the texts that have an exponent or are long.
func quantityText(text []byte) error {
	if len(text) < 64 && !bytes.ContainsAny(text, "eE") {
		return nil
	}
	return validate.QuantityText(string(text))
}

// quantity checks a text or number. Quantities read their text as it stands, without escapes.
func (s *scanner) quantity() error {
	begin := s.i
	if err := s.skip(); err != nil {
		return err
	}
	text := s.data[begin:s.i]
	if len(text) >= 2 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	return quantityText(text)
}

func (s *scanner) elements(element func() error) error {
	s.i++
	if s.space(); s.take(']') {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.space(); s.take(']') {
			return nil
		}
		if !s.take(',') {
			return errSyntax
		}
	}
}

func (s *scanner) members(value func(name []byte) error) error {
	s.i++
	if s.space(); s.take('}') {
		return nil
	}
	for {
		s.space()
		name, err := s.name()
		if err != nil {
			return err
		}
		if s.space(); !s.take(':') {
			return errSyntax
		}
		if err := value(name); err != nil {
			return err
		}
		if s.space(); s.take('}') {
			return nil
		}
		if !s.take(',') {
			return errSyntax
		}
	}
}

// name reads the name of a member.
func (s *scanner) name() ([]byte, error) {
	begin := s.i
	if s.peek() != '"' {
		return nil, errSyntax
	}
	escaped, err := s.text()
	if err != nil {
		return nil, err
	}
	if !escaped {
		return s.data[begin+1 : s.i-1], nil
	}
	var name string
	if json.Unmarshal(s.data[begin:s.i], &name) != nil {
		return nil, errSyntax
	}
	return []byte(name), nil
}

// text goes over a string and reports whether there are escapes in it.
func (s *scanner) text() (escaped bool, err error) {
	for s.i++; s.i < len(s.data); s.i++ {
		switch s.data[s.i] {
		case '"':
			s.i++
			return escaped, nil
		case '\\':
			escaped = true
			s.i++
		}
	}
	return escaped, errSyntax
}

// skip goes over any value, however deep.
func (s *scanner) skip() error {
	for depth := 0; ; {
		s.space()
		switch s.peek() {
		case '"':
			if _, err := s.text(); err != nil {
				return err
			}
		case '{', '[':
			s.i++
			depth++
			continue
		case '}', ']':
			s.i++
			depth--
		case ',', ':':
			if depth == 0 {
				return errSyntax
			}
			s.i++
			continue
		default:
			if !s.word() {
				return errSyntax
			}
		}
		if depth <= 0 {
			return nil
		}
	}
}

// word goes over a number, true, false or null.
func (s *scanner) word() bool {
	begin := s.i
	for ; s.i < len(s.data); s.i++ {
		switch s.data[s.i] {
		case ',', ':', '{', '}', '[', ']', '"', ' ', '\t', '\n', '\r':
			return s.i > begin
		}
	}
	return s.i > begin
}

func (s *scanner) space() {
	for s.i < len(s.data) {
		switch s.data[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek is the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.data) {
		return s.data[s.i]
	}
	return 0
}

// take goes over one byte if it is c.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}
