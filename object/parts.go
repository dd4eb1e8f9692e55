package object

import (
	"bytes"
	"unsafe"
)

// The JSON of an object whose strings need no escapes has them just as the protobuf has them. For large objects (a release or an archive as
// base64 in a config map, for example) those strings are not copied: their JSON is kept as parts, some of which are parts of the
// served protobuf. So an object of 1 MB costs 1 MB, not 2, when it is read in both forms. Strings with escapes are copied as always.

const (
	largeBytes = 64 << 10 // of protobuf, from which JSON is kept in parts
	sharedMin  = 8 << 10  // the shortest part that is worth sharing
)

// LargeJSON returns the parts of the object's JSON when it is kept in parts, nil otherwise. All are shared.
func (v *Version) LargeJSON() [][]byte {
	if len(v.wire) < largeBytes || !v.isProto() {
		return nil
	}
	return v.json().parts
}

// AppendJSON appends what JSON returns.
func (v *Version) AppendJSON(dst []byte) ([]byte, error) {
	if parts := v.LargeJSON(); parts != nil {
		for _, p := range parts {
			dst = append(dst, p...)
		}
		return dst, nil
	}
	b, err := v.JSON()
	return append(dst, b...), err
}

// makeJSONForm makes the JSON that is kept.
func (v *Version) makeJSONForm() encoded {
	if o := v.origin.Value(); o != nil {
		return *o.json()
	}
	if len(v.wire) >= largeBytes {
		var parts [][]byte
		head := v.typ.layout().jsonHead
		transcoding(v.typ.jsonPlan(), head[:len(head)-1], v.message(), func(out []byte) { parts = sharedParts(out, v.wire, len(head)) })
		if parts != nil {
			return encoded{parts: parts}
		}
	}
	b, err := v.makeJSON()
	return encoded{bytes: b, err: err}
}

// sharedParts cuts text into parts that are copies and parts that are in wire. The first part is a copy and has at least first bytes.
// It returns nil if less than half of the text is in wire.
func sharedParts(text, wire []byte, first int) [][]byte {
	type span struct{ start, end, at int } // text[start:end] is wire[at:]
	var shared []span
	size := 0
	for i := 0; i < len(text); {
		end := len(text)
		if n := bytes.IndexAny(text[i:], `"\`); n >= 0 {
			end = i + n
		}
		if end-i >= sharedMin && i >= first {
			if at := bytes.Index(wire, text[i:end]); at >= 0 {
				shared = append(shared, span{i, end, at})
				size += end - i
			}
		}
		if i = end + 1; end < len(text) && text[end] == '\\' {
			i++ // the escape
		}
	}
	if size < len(text)/2 {
		return nil
	}
	copied := make([]byte, 0, len(text)-size)
	var parts [][]byte
	from := 0
	own := func(to int) {
		start := len(copied)
		copied = append(copied, text[from:to]...)
		parts = append(parts, copied[start:len(copied):len(copied)])
	}
	for _, s := range shared {
		own(s.start)
		n := s.end - s.start
		parts = append(parts, wire[s.at:s.at+n:s.at+n])
		from = s.end
	}
	own(len(text))
	return parts
}

// ownParts is the memory that parts hold beside the version's protobuf, in bytes.
func (v *Version) ownParts(parts [][]byte) int {
	n := 0
	for i, p := range parts {
		n += int(unsafe.Sizeof(p))
		if i%2 == 0 { // copied and shared ones take turns
			n += len(p)
		}
	}
	return n
}
