package managed

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// element is one element of a list with what tells it apart.
type element struct {
	quoted string   // its key in a set
	parts  []scalar // in the order of the keys
	value  reflect.Value
}

// scalar is a string, an integer or nothing: what is left out.
type scalar struct {
	kind   scalarKind
	text   string
	number int64
}

type scalarKind uint8

const (
	nothing scalarKind = iota
	numeric            // less than any text
	textual
)

func sortKeys(keys []key) {
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.name, b.name) })
}

// elements returns the elements of a list in the order of a set. It returns false when one cannot be told apart, or only in
// a way that is left to the library.
func (n *node) elements(list side) ([]element, bool) {
	if list.state != present || list.value.Len() == 0 {
		return nil, true
	}
	out := make([]element, list.value.Len())
	width := max(1, len(n.keys))
	parts := make([]scalar, len(out)*width)
	for i := range out {
		v := list.value.Index(i)
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return nil, false
			}
			v = v.Elem()
		}
		out[i].value, out[i].parts = v, parts[i*width:(i+1)*width]
		if !n.name(&out[i]) {
			return nil, false
		}
	}
	if len(out) > 1 {
		slices.SortStableFunc(out, compareElements)
	}
	return out, true
}

// name finds out what tells an element apart.
func (n *node) name(e *element) bool {
	b := make([]byte, 0, 128)
	var ok bool
	if n.kind == distinct {
		if e.parts[0], ok = scalarOf(e.value); !ok {
			return false
		}
		b, ok = e.parts[0].append(append(b, "v:"...))
		e.quoted = quote(b)
		return ok
	}
	b = append(b, `k:{`...)
	any := false
	for i, k := range n.keys {
		v := k.entry.GetFrom(e.value)
		part := k.unset
		if !k.entry.CanOmit(v) {
			if v.Kind() == reflect.Pointer {
				if v.IsNil() {
					return false
				}
				v = v.Elem()
			}
			if part, ok = scalarOf(v); !ok {
				return false
			}
		}
		e.parts[i] = part
		if part.kind == nothing {
			continue
		}
		if any {
			b = append(b, ',')
		}
		any = true
		b = append(append(append(b, '"'), k.name...), '"', ':')
		if b, ok = part.append(b); !ok {
			return false
		}
	}
	e.quoted = quote(append(b, '}'))
	return any
}

func scalarOf(v reflect.Value) (scalar, bool) {
	switch v.Kind() {
	case reflect.String:
		return scalar{kind: textual, text: v.String()}, true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return scalar{kind: numeric, number: v.Int()}, true
	}
	return scalar{}, false
}

// compareElements orders elements as sets do: by names of keys, then values. The lists of keys are the same but for those
// left out, and what lacks a key has a later one in its place.
func compareElements(a, b element) int {
	for i := range a.parts {
		x, y := &a.parts[i], &b.parts[i]
		switch {
		case x.kind == nothing && y.kind == nothing:
			continue
		case x.kind == nothing:
			return missing(a.parts[i+1:])
		case y.kind == nothing:
			return -missing(b.parts[i+1:])
		}
		if c := cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.number, y.number), strings.Compare(x.text, y.text)); c != 0 {
			return c
		}
	}
	return 0
}

// missing is the order of an element that lacks a key against one that has it: greater when another key follows, else the
// shorter list is less.
func missing(rest []scalar) int {
	for _, part := range rest {
		if part.kind != nothing {
			return 1
		}
	}
	return -1
}
