package wire

import (
	"encoding/binary"

	"vigil/internal/protobuf"
)

// AppendWithoutManagedFields appends an object to dst, without metadata.managedFields. It returns false when there are none, or the bytes
// are malformed.
func AppendWithoutManagedFields(dst []byte, e Encoding, b []byte) ([]byte, bool) {
	if e == JSON {
		return cutJSON(dst, b)
	}
	return cutProto(dst, b)
}

func cutProto(out, b []byte) ([]byte, bool) {
	cut := false
	for f := walk(b, Span{0, len(b)}); ; {
		from := f.pos
		if !f.next() {
			return out, cut && !f.failed()
		}
		if f.num != objectMetadata || f.typ != protobuf.Bytes {
			out = append(out, b[from:f.pos]...)
			continue
		}
		size, g := 0, walk(b, f.span)
		for {
			from := g.pos
			if !g.next() {
				break
			}
			if g.num == metaManagedFields {
				cut = true
			} else {
				size += g.pos - from
			}
		}
		if g.failed() {
			return nil, false
		}
		out = append(out, objectMetadata<<3|protobuf.Bytes)
		out = binary.AppendUvarint(out, uint64(size))
		for g = walk(b, f.span); ; {
			from := g.pos
			if !g.next() {
				break
			}
			if g.num != metaManagedFields {
				out = append(out, b[from:g.pos]...)
			}
		}
	}
}

func cutJSON(dst, b []byte) ([]byte, bool) {
	top := walkJSON(b, 0)
	for top.next() {
		if !top.is("metadata") {
			continue
		}
		in := walkJSON(b, top.value.Start)
		var before int // end of the member before
		for in.next() {
			if !in.is("managedFields") {
				before = in.value.End
				continue
			}
			start, end := in.key.Start, in.value.End
			if before > 0 {
				start = before // with the comma between them
			} else if i := skipSpace(b, end); i < len(b) && b[i] == ',' {
				end = i + 1
			}
			return append(append(dst, b[:start]...), b[end:]...), true
		}
	}
	return nil, false
}
