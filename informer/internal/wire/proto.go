package wire

import (
	"bytes"
	"fmt"

	"vigil/internal/protobuf"
)

// Field numbers of k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto and pkg/runtime/generated.proto.
const (
	objectMetadata = 1 // of every kind and list

	metaName            = 1
	metaNamespace       = 3
	metaUID             = 5
	metaResourceVersion = 6
	metaLabels          = 11
	metaAnnotations     = 12
	metaOwnerReferences = 13
	metaManagedFields   = 17

	mapKey   = 1
	mapValue = 2

	ownerAPIVersion = 5
	ownerKind       = 1
	ownerName       = 3
	ownerUID        = 4
	ownerController = 6

	listResourceVersion = 2
	listContinue        = 3
	listItems           = 2

	unknownTypeMeta = 1
	unknownRaw      = 2

	typeMetaAPIVersion = 1
	typeMetaKind       = 2

	watchEventType   = 1
	watchEventObject = 2
	rawExtensionRaw  = 1
)

// initialEventsEnd is the annotation on the bookmark that ends the initial events (KEP-3157).
const initialEventsEnd = "k8s.io/initial-events-end"

var errProto = fmt.Errorf("%w protobuf", ErrMalformed)

// fields walks over the fields of one protobuf message: b[pos:end].
type fields struct {
	b        []byte
	pos, end int

	// Of the field found last.
	num  int32
	typ  uint8
	span Span   // of the value; the contents of a length-delimited field
	val  uint64 // of a varint
}

func walk(b []byte, s Span) fields { return fields{b: b, pos: s.Start, end: s.End} }

// next finds the next field. It returns false at the end and on an error; the two are told apart by failed.
func (f *fields) next() bool {
	if f.pos >= f.end {
		return false
	}
	found, ok := protobuf.Next(f.b[:f.end], f.pos)
	if !ok {
		return f.fail()
	}
	f.num, f.typ, f.val, f.span, f.pos = found.Num, found.Type, found.Value, Span{found.Start, found.End}, found.End
	return true
}

// failed says that next returned false because of an error.
func (f *fields) failed() bool { return f.pos < 0 }

func (f *fields) fail() bool {
	f.pos, f.end = -1, -1
	return false
}

// protoMeta reads the metadata of a kind's message. A second metadata field merges into the first, as a decoder does it.
func protoMeta(b []byte, m *Meta) error {
	*m = Meta{}
	for f := walk(b, Span{0, len(b)}); ; {
		if !f.next() {
			if f.failed() {
				return errProto
			}
			return nil
		}
		if f.num != objectMetadata || f.typ != protobuf.Bytes {
			continue
		}
		g := walk(b, f.span)
		for g.next() {
			if g.typ != protobuf.Bytes {
				continue
			}
			switch g.num {
			case metaName:
				m.Name = g.span
			case metaNamespace:
				m.Namespace = g.span
			case metaUID:
				m.UID = g.span
			case metaResourceVersion:
				m.ResourceVersion = g.span
			case metaAnnotations:
				if k, v, ok := mapEntry(b, g.span); ok && string(k.Of(b)) == initialEventsEnd {
					m.InitialEventsEnd = string(v.Of(b)) == "true"
				}
			}
		}
		if g.failed() {
			return errProto
		}
	}
}

// mapEntry reads one entry of a map<string, string>.
func mapEntry(b []byte, s Span) (key, value Span, ok bool) {
	f := walk(b, s)
	for f.next() {
		if f.typ != protobuf.Bytes {
			continue
		}
		switch f.num {
		case mapKey:
			key = f.span
		case mapValue:
			value = f.span
		}
	}
	return key, value, !f.failed()
}

// protoMagic stands before every protobuf object on the wire and in etcd.
var protoMagic = []byte("k8s\x00")

// TypeMeta is what an object says about itself.
type TypeMeta struct{ APIVersion, Kind string }

// Unwrap takes off the k8s\0 envelope and returns the kind's message, a part of b.
func Unwrap(b []byte) (message []byte, err error) {
	_, message, err = unwrap(b)
	return message, err
}

// UnwrapTyped is Unwrap that also says what the envelope holds.
func UnwrapTyped(b []byte) (TypeMeta, []byte, error) {
	ts, message, err := unwrap(b)
	if err != nil {
		return TypeMeta{}, nil, err
	}
	var t TypeMeta
	f := walk(b, ts)
	for f.next() {
		switch {
		case f.typ != protobuf.Bytes:
		case f.num == typeMetaAPIVersion:
			t.APIVersion = string(f.span.Of(b))
		case f.num == typeMetaKind:
			t.Kind = string(f.span.Of(b))
		}
	}
	if f.failed() {
		return TypeMeta{}, nil, errProto
	}
	return t, message, nil
}

func unwrap(b []byte) (typeMeta Span, message []byte, err error) {
	if !bytes.HasPrefix(b, protoMagic) {
		return Span{}, nil, fmt.Errorf("%w protobuf: no k8s envelope", ErrMalformed)
	}
	f := walk(b, Span{len(protoMagic), len(b)})
	for f.next() {
		if f.typ != protobuf.Bytes {
			continue
		}
		switch f.num {
		case unknownTypeMeta:
			typeMeta = f.span
		case unknownRaw:
			message = f.span.Of(b)
		}
	}
	if f.failed() {
		return Span{}, nil, errProto
	}
	return typeMeta, message, nil
}
