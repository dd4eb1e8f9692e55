package transcode

import (
	"math"
	"sync"

	"vigil/internal/protobuf"
)

// Append appends the JSON members of the object whose message is msg to dst, which must end in the middle of an
// object: behind its '{' or behind a member (kind and apiVersion, which the plan does not have). It closes the object.
// On ErrUnusual dst is returned as it was.
func (p *Plan) Append(dst, msg []byte) ([]byte, error) {
	if len(msg) > math.MaxInt32 {
		return dst, ErrUnusual
	}
	w := walkers.Get().(*walker)
	defer walkers.Put(w)
	w.places = w.places[:0]
	out := w.members(dst, p, msg, 0)
	if out == nil {
		return dst, ErrUnusual
	}
	return append(out, '}'), nil
}

var walkers = sync.Pool{New: func() any { return new(walker) }}

// walker is the state of one Append. Its methods that write take the output and return it longer, or nil for what is
// unusual; keeping the output in the walker costs a write barrier at every append while the collector runs.
type walker struct {
	places []place // a stack: each message on the way down has as many as its plan wants
}

// place is where a field was found in its message. end is 0 when it was not.
type place struct {
	start uint32 // of the value; of the first tag when repeated
	end   uint32 // of the last value
	num   uint64 // the value of a varint
}

// maxDepth bounds the recursion; Kubernetes types are nested about ten deep.
const maxDepth = 100

// members writes the members of a message without its braces.
func (w *walker) members(dst []byte, p *Plan, b []byte, depth int) []byte {
	if depth > maxDepth {
		return nil
	}
	base := len(w.places)
	w.grow(p.proto)
	if !scan(p, b, w.places[base:]) {
		return nil
	}
	for i := range p.fields {
		if dst = w.member(dst, &p.fields[i], b, base, depth); dst == nil {
			return nil
		}
	}
	w.places = w.places[:base]
	return dst
}

// grow pushes n empty places.
func (w *walker) grow(n int) {
	base := len(w.places)
	if cap(w.places) < base+n {
		w.places = append(make([]place, 0, 2*(base+n)), w.places...)
	}
	w.places = w.places[:base+n]
	clear(w.places[base:])
}

// scan notes where the fields of b are.
func scan(p *Plan, b []byte, places []place) bool {
	for i := 0; i < len(b); {
		tag := i
		var f protobuf.Field
		// Most fields are short strings and messages with small numbers; everything else is left to protobuf.Next.
		if i+1 < len(b) && b[i]&0x87 == protobuf.Bytes && b[i] >= 1<<3 && b[i+1] < 0x80 {
			f = protobuf.Field{Num: int32(b[i] >> 3), Type: protobuf.Bytes, Start: i + 2, End: i + 2 + int(b[i+1])}
			if f.End > len(b) {
				return false
			}
		} else {
			var ok bool
			if f, ok = protobuf.Next(b, i); !ok {
				return false
			}
		}
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
			at.start, at.num = uint32(f.Start), f.Value
		case at.end == 0:
			at.start = uint32(tag)
		}
		at.end = uint32(f.End)
	}
	return true
}

// member writes one member with its name, or nothing when it is to be left out.
func (w *walker) member(dst []byte, f *field, b []byte, base, depth int) []byte {
	if f.shape == fixed {
		return append(appendName(dst, f), f.fixed...)
	}
	at := w.places[base+int(f.index)]
	if at.end == 0 {
		if f.omit == empty && f.shape != inline && !(f.shape == single && f.value.kind.isMessage()) {
			return dst
		}
		return w.absent(dst, f, depth)
	}
	b = b[at.start:at.end]
	switch f.shape {
	case inline:
		return w.members(dst, f.value.plan, b, depth+1)
	case single:
		if f.omit == empty && isEmpty(f.value.kind, at) || f.omit == zeroTime && isZeroTime(b) {
			return dst
		}
	case pointer:
		if f.omit == zeroTime && isZeroTime(b) {
			return dst
		}
	case list:
		return w.list(appendName(dst, f), f, b, depth)
	case mapping:
		return w.mapping(appendName(dst, f), f, b, depth)
	}
	return w.value(appendName(dst, f), &f.value, b, at.num, depth)
}

// absent writes a member whose field does not occur.
func (w *walker) absent(dst []byte, f *field, depth int) []byte {
	switch {
	case f.shape == inline:
		return w.members(dst, f.value.plan, nil, depth+1)
	case f.omit == zeroTime:
		return dst
	case f.shape == single && f.value.kind != base64Bytes:
		return w.value(appendName(dst, f), &f.value, nil, 0, depth)
	}
	return append(appendName(dst, f), "null"...) // nil pointer, slice or map
}

// isEmpty is what omitempty asks of a value that is neither pointer, list nor map. Structs are never empty.
func isEmpty(k kind, at place) bool {
	switch k {
	case text, base64Bytes:
		return at.start == at.end
	case boolean, int64s, uint64s:
		return at.num == 0
	case int32s:
		return int32(at.num) == 0
	}
	return false
}

// appendName appends the comma before a member, if it needs one, and the member's name.
func appendName(dst []byte, f *field) []byte {
	if dst[len(dst)-1] == '{' {
		return append(dst, f.key[1:]...)
	}
	return append(dst, f.key...)
}

// list writes the elements of a repeated field; b begins at the first tag and ends with the last value.
func (w *walker) list(dst []byte, f *field, b []byte, depth int) []byte {
	open := byte('[')
	for i := 0; i < len(b); {
		e, ok := protobuf.Next(b, i)
		if !ok {
			return nil
		}
		i = e.End
		if e.Num != f.num {
			continue
		}
		dst = append(dst, open)
		open = ','
		if dst = w.value(dst, &f.value, b[e.Start:e.End], e.Value, depth); dst == nil {
			return nil
		}
	}
	return append(dst, ']')
}
