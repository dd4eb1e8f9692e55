package transcode

import (
	"sync"

	"vigil/object/internal/wire"
)

// Append appends the JSON members of the object whose message is msg to dst, which must end in the middle of an
// object: behind its '{' or behind a member (kind and apiVersion, which the plan does not have). It closes the object.
// On ErrUnusual dst is returned as it was.
func (p *Plan) Append(dst, msg []byte) ([]byte, error) {
	w := walkers.Get().(*walker)
	defer walkers.Put(w)
	w.dst, w.places = dst, w.places[:0]
	ok := w.members(p, msg, 0)
	out := w.dst
	w.dst = nil
	if !ok {
		return dst, ErrUnusual
	}
	return append(out, '}'), nil
}

var walkers = sync.Pool{New: func() any { return new(walker) }}

// walker is the state of one Append.
type walker struct {
	dst    []byte
	places []place // a stack: each message on the way down has as many as its plan wants
}

// place is where a field was found in its message. end is 0 when it was not.
type place struct {
	start int    // of the value; of the first tag when repeated
	end   int    // of the last value
	num   uint64 // the value of a varint
}

// maxDepth bounds the recursion; Kubernetes types are nested about ten deep.
const maxDepth = 100

// members writes the members of a message without its braces.
func (w *walker) members(p *Plan, b []byte, depth int) bool {
	if depth > maxDepth {
		return false
	}
	base := len(w.places)
	w.grow(p.proto)
	if !scan(p, b, w.places[base:]) {
		return false
	}
	for i := range p.fields {
		if !w.member(&p.fields[i], b, base, depth) {
			return false
		}
	}
	w.places = w.places[:base]
	return true
}

// grow pushes n empty places.
func (w *walker) grow(n int) {
	base := len(w.places)
	for cap(w.places) < base+n {
		w.places = append(w.places[:cap(w.places)], place{})
	}
	w.places = w.places[:base+n]
	clear(w.places[base:])
}

// scan notes where the fields of b are.
func scan(p *Plan, b []byte, places []place) bool {
	for i := 0; i < len(b); {
		f, ok := wire.Next(b, i)
		if !ok {
			return false
		}
		tag := i
		i = f.End
		if int(f.Num) >= len(p.slots) {
			continue
		}
		s := &p.slots[f.Num]
		if s.index < 0 {
			continue
		}
		if f.Type != s.wireType {
			return false
		}
		at := &places[s.index]
		switch {
		case !s.repeated:
			if at.end != 0 && s.message {
				return false
			}
			at.start, at.num = f.Start, f.Value
		case at.end == 0:
			at.start = tag
		}
		at.end = f.End
	}
	return true
}

// member writes one member with its name, or nothing when it is to be left out.
func (w *walker) member(f *field, b []byte, base, depth int) bool {
	if f.shape == fixed {
		w.name(f)
		w.dst = append(w.dst, f.fixed...)
		return true
	}
	at := w.places[base+int(f.index)]
	if at.end == 0 {
		return w.absent(f, depth)
	}
	switch f.shape {
	case inline:
		return w.members(f.value.plan, b[at.start:at.end], depth+1)
	case single:
		if f.omit == empty && isEmpty(f.value.kind, at) {
			return true
		}
		if f.omit == zeroTime && isZeroTime(b[at.start:at.end]) {
			return true
		}
	case pointer:
		if f.omit == zeroTime && isZeroTime(b[at.start:at.end]) {
			return true
		}
	case list:
		w.name(f)
		return w.list(f, b[at.start:at.end], depth)
	case mapping:
		w.name(f)
		return w.mapping(f, b[at.start:at.end], depth)
	}
	w.name(f)
	return w.value(&f.value, b[at.start:at.end], at.num, depth)
}

// absent writes a member whose field does not occur.
func (w *walker) absent(f *field, depth int) bool {
	switch f.shape {
	case inline:
		return w.members(f.value.plan, nil, depth+1)
	case single:
		switch {
		case f.omit == zeroTime, f.omit == empty && !f.value.kind.isMessage():
			return true
		case f.value.kind == base64Bytes:
			w.name(f)
			w.dst = append(w.dst, "null"...)
			return true
		case f.value.kind == stringList && f.omit == empty:
			return true
		}
		w.name(f)
		return w.value(&f.value, nil, 0, depth)
	}
	if f.omit == never { // nil pointer, slice or map
		w.name(f)
		w.dst = append(w.dst, "null"...)
	}
	return true
}

// isEmpty is what omitempty asks of a value that is neither pointer, list nor map. Structs are never empty.
func isEmpty(k kind, at place) bool {
	switch k {
	case text, base64Bytes, stringList:
		return at.start == at.end
	case boolean, int64s, uint64s:
		return at.num == 0
	case int32s:
		return int32(at.num) == 0
	}
	return false
}

// name writes the comma before a member, if it needs one, and the member's name.
func (w *walker) name(f *field) {
	if w.dst[len(w.dst)-1] != '{' {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(w.dst, f.key...)
}

// list writes the elements of a repeated field; b begins at the first tag and ends with the last value.
func (w *walker) list(f *field, b []byte, depth int) bool {
	open := byte('[')
	for i := 0; i < len(b); {
		e, ok := wire.Next(b, i)
		if !ok {
			return false
		}
		i = e.End
		if e.Num != f.num {
			continue
		}
		w.dst = append(w.dst, open)
		open = ','
		if !w.value(&f.value, b[e.Start:e.End], e.Value, depth) {
			return false
		}
	}
	w.dst = append(w.dst, ']')
	return true
}
