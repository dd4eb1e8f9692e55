package managed

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// element is one element of a list with what tells it apart.
type element struct {
	quoted string // its key in a set
	parts  []any  // strings and int64s, in the order of the keys; nil for one that is left out
	value  reflect.Value
}

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
	for i := range out {
		v := list.value.Index(i)
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return nil, false
			}
			v = v.Elem()
		}
		out[i].value = v
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
	if n.kind == distinct {
		part, ok := scalarOf(e.value)
		if !ok {
			return false
		}
		b, ok := appendScalar([]byte("v:"), part)
		e.quoted, e.parts = quote(string(b)), []any{part}
		return ok
	}
	b := append(make([]byte, 0, 64), `k:{`...)
	any := false
	for _, k := range n.keys {
		v := k.entry.GetFrom(e.value)
		var part = k.unset
		if !k.entry.CanOmit(v) {
			if v.Kind() == reflect.Pointer {
				if v.IsNil() {
					return false
				}
				v = v.Elem()
			}
			var ok bool
			if part, ok = scalarOf(v); !ok {
				return false
			}
		}
		e.parts = append(e.parts, part)
		if part == nil {
			continue
		}
		if any {
			b = append(b, ',')
		}
		any = true
		b = append(append(append(b, '"'), k.name...), '"', ':')
		var ok bool
		if b, ok = appendScalar(b, part); !ok {
			return false
		}
	}
	e.quoted = quote(string(append(b, '}')))
	return any
}

func scalarOf(v reflect.Value) (any, bool) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), true
	}
	return nil, false
}

// compareElements orders elements as sets do: by names of keys, then values. The lists of keys are the same but for those
// left out, and what lacks a key has a later one in its place.
func compareElements(a, b element) int {
	for i := range a.parts {
		x, y := a.parts[i], b.parts[i]
		switch {
		case x == nil && y == nil:
			continue
		case x == nil:
			return missing(a.parts[i+1:])
		case y == nil:
			return -missing(b.parts[i+1:])
		}
		if c := compareScalars(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// missing is the order of an element that lacks a key against one that has it: greater when another key follows, else the
// shorter list is less.
func missing(rest []any) int {
	for _, part := range rest {
		if part != nil {
			return 1
		}
	}
	return -1
}

func compareScalars(x, y any) int {
	xi, xInt := x.(int64)
	yi, yInt := y.(int64)
	switch {
	case xInt && yInt:
		return cmp.Compare(xi, yi)
	case xInt:
		return -1
	case yInt:
		return 1
	}
	xs, _ := x.(string)
	ys, _ := y.(string)
	return strings.Compare(xs, ys)
}
