package protobuf

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

func TestNext(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []byte
		want Field
		ok   bool
	}{
		{"string", []byte{0x0a, 2, 'h', 'i', 0xff}, Field{Num: 1, Type: Bytes, Start: 2, End: 4}, true},
		{"empty string", []byte{0x12, 0}, Field{Num: 2, Type: Bytes, Start: 2, End: 2}, true},
		{"varint", []byte{0x38, 0x96, 0x01}, Field{Num: 7, Type: Varint, Start: 1, End: 3, Value: 150}, true},
		{"two byte tag", []byte{0x8a, 0x01, 1, 'x'}, Field{Num: 17, Type: Bytes, Start: 3, End: 4}, true},
		{"fixed64", []byte{0x09, 1, 2, 3, 4, 5, 6, 7, 8}, Field{Num: 1, Type: Fixed64, Start: 1, End: 9}, true},
		{"fixed32", []byte{0x0d, 1, 2, 3, 4}, Field{Num: 1, Type: Fixed32, Start: 1, End: 5}, true},
		{"nothing", nil, Field{}, false},
		{"tag only", []byte{0x0a}, Field{}, false},
		{"cut string", []byte{0x0a, 3, 'h', 'i'}, Field{}, false},
		{"huge length", append([]byte{0x0a}, binary.AppendUvarint(nil, math.MaxUint64)...), Field{}, false},
		{"cut varint", []byte{0x38, 0x96}, Field{}, false},
		{"long varint", append([]byte{0x38}, bytes.Repeat([]byte{0xff}, 11)...), Field{}, false},
		{"cut fixed64", []byte{0x09, 1, 2}, Field{}, false},
		{"group", []byte{0x0b, 0x0c}, Field{}, false},
		{"number 0", []byte{0x02, 0}, Field{}, false},
		{"huge number", append(binary.AppendUvarint(nil, 1<<33|2), 0), Field{}, false},
	} {
		got, ok := Next(c.in, 0)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %+v, %v", c.name, got, ok)
		}
	}
	for _, at := range []int{-1, 3, 99} {
		if f, ok := Next([]byte{0x0a, 1, 'x'}, at); ok {
			t.Errorf("at %d: %+v", at, f)
		}
	}
}

func TestUvarint(t *testing.T) {
	for shift := range 64 {
		for _, v := range []uint64{1 << shift, 1<<shift - 1, math.MaxUint64 >> shift} {
			b := AppendUvarint(nil, v)
			if !bytes.Equal(b, binary.AppendUvarint(nil, v)) || len(b) != SizeUvarint(v) {
				t.Fatalf("%d: %x", v, b)
			}
			if got, next, ok := Uvarint(b, 0); !ok || got != v || next != len(b) {
				t.Fatalf("%d: %d, %d, %v", v, got, next, ok)
			}
		}
	}
}

func FuzzNext(f *testing.F) {
	f.Add([]byte{0x0a, 2, 'h', 'i', 0x38, 0x96, 0x01, 0x8a, 0x01, 0, 0x09, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add(bytes.Repeat([]byte{0xff}, 12))
	f.Fuzz(func(t *testing.T, b []byte) {
		for i := 0; i < len(b); {
			field, ok := Next(b, i)
			if !ok {
				break
			}
			if field.Start < i || field.End < field.Start || field.End > len(b) || field.Num < 1 {
				t.Fatalf("at %d of %d: %+v", i, len(b), field)
			}
			i = field.End
		}
	})
}
