// Package protobuf reads and writes the protobuf wire format of https://protobuf.dev/programming-guides/encoding/ as far
// as Kubernetes types use it: varints, fixed-size numbers and length-delimited values.
//
// It never panics and never reads outside the slice it is given. It is stricter than a decoder: groups, overlong
// varints and field numbers beyond 2^29-1 are malformed here, and callers then ask the generated decoder, which knows
// best.
package protobuf

import "math/bits"

// Wire types.
const (
	Varint  = 0
	Fixed64 = 1
	Bytes   = 2
	Fixed32 = 5
)

// Field is one tag with its value inside a message. Offsets count from the start of the message's slice.
type Field struct {
	Num   int32  // field number, at least 1
	Type  byte   // Varint, Fixed64, Bytes or Fixed32
	Start int    // where the value begins: the payload for Bytes
	End   int    // where the value ends and the next tag begins
	Value uint64 // the number when Type is Varint
}

const maxNum = 1<<29 - 1

// Next reads the field whose tag is at b[i]. It reports false at the end of b and for malformed input; a caller
// that stops before len(b) has met malformed input.
func Next(b []byte, i int) (f Field, ok bool) {
	var tag uint64
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		tag = uint64(b[i])
		i++
	} else if tag, i, ok = Uvarint(b, i); !ok {
		return f, false
	}
	num := tag >> 3
	if num == 0 || num > maxNum {
		return f, false
	}
	f.Num, f.Type = int32(num), byte(tag&7)
	switch f.Type {
	case Bytes:
		var n uint64
		if i < len(b) && b[i] < 0x80 {
			n = uint64(b[i])
			i++
		} else if n, i, ok = Uvarint(b, i); !ok {
			return f, false
		}
		if n > uint64(len(b)-i) {
			return f, false
		}
		f.Start, f.End = i, i+int(n)
	case Varint:
		f.Start = i
		if f.Value, f.End, ok = Uvarint(b, i); !ok {
			return f, false
		}
	case Fixed64:
		f.Start, f.End = i, i+8
	case Fixed32:
		f.Start, f.End = i, i+4
	default:
		return f, false
	}
	return f, f.End <= len(b)
}

// Uvarint reads the number at b[i] and returns it with the offset behind it.
func Uvarint(b []byte, i int) (v uint64, next int, ok bool) {
	if i < 0 {
		return 0, i, false
	}
	for shift := uint(0); i < len(b); shift += 7 {
		c := b[i]
		i++
		if shift == 63 && c > 1 { // the tenth byte has one bit
			return 0, i, false
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, i, true
		}
		if shift == 63 {
			return 0, i, false
		}
	}
	return 0, i, false
}

// SizeUvarint is the number of bytes that AppendUvarint appends.
func SizeUvarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// AppendUvarint appends v.
func AppendUvarint(dst []byte, v uint64) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// AppendTag appends the tag of field num.
func AppendTag(dst []byte, num int32, typ byte) []byte {
	return AppendUvarint(dst, uint64(num)<<3|uint64(typ))
}

// AppendBytes appends a whole length-delimited field.
func AppendBytes[T string | []byte](dst []byte, num int32, value T) []byte {
	dst = AppendTag(dst, num, Bytes)
	dst = AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// SizeBytes is the number of bytes of a length-delimited field with a one-byte tag (number below 16) and n bytes.
func SizeBytes(n int) int { return 1 + SizeUvarint(uint64(n)) + n }
