package object

import (
	"fmt"
	"strconv"

	"vigil/internal/protobuf"
)

// The envelope around every protobuf object, in etcd and on the wire
// (k8s.io/apimachinery/pkg/runtime/serializer/protobuf):
//
//	6b 38 73 00                       "k8s\0"
//	0a L { 0a L apiVersion 12 L kind }  runtime.Unknown.typeMeta
//	12 L message                        runtime.Unknown.raw: the kind's own message
//	1a 00 22 00                         contentEncoding, contentType, empty
const envelopeTail = "\x1a\x00\x22\x00"

const envelopeMagic = "k8s\x00"

const (
	tagMetadata        = 1<<3 | protobuf.Bytes // field 1 of every kind's message
	tagRaw             = 2<<3 | protobuf.Bytes // field 2 of the envelope
	tagResourceVersion = 6<<3 | protobuf.Bytes // field 6 of ObjectMeta
)

// Field numbers of ObjectMeta.
const (
	metaName            = 1
	metaNamespace       = 3
	metaSelfLink        = 4
	metaUID             = 5
	metaResourceVersion = 6
	metaLabels          = 11
)

// envelopeHead is everything before the length of the raw message.
func envelopeHead(apiVersion, kind string) []byte {
	typeMeta := protobuf.AppendBytes(nil, 1, apiVersion)
	typeMeta = protobuf.AppendBytes(typeMeta, 2, kind)
	return append(protobuf.AppendBytes([]byte(envelopeMagic), 1, typeMeta), tagRaw)
}

// hasEnvelope reports whether stored begins like a protobuf envelope.
func hasEnvelope(stored []byte) bool {
	return len(stored) >= len(envelopeMagic) && string(stored[:len(envelopeMagic)]) == envelopeMagic
}

// openEnvelope returns the message inside an envelope of type t, a sub-slice of stored.
func openEnvelope(t *Type, stored []byte) ([]byte, error) {
	if !hasEnvelope(stored) {
		return nil, fmt.Errorf("%w: no k8s envelope", ErrMalformed)
	}
	b := stored[len(envelopeMagic):]
	var apiVersion, kind, raw []byte
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok {
			return nil, fmt.Errorf("%w: damaged envelope at byte %d", ErrMalformed, i+len(envelopeMagic))
		}
		value := b[f.Start:f.End]
		switch {
		case f.Num > 4:
		case f.Type != protobuf.Bytes:
			return nil, fmt.Errorf("%w: envelope field %d has wire type %d", ErrMalformed, f.Num, f.Type)
		case f.Num == 1:
			var ok bool
			if apiVersion, kind, ok = typeMeta(value); !ok {
				return nil, fmt.Errorf("%w: damaged type in envelope", ErrMalformed)
			}
		case f.Num == 2:
			raw = value
		case len(value) > 0: // contentEncoding, contentType
			return nil, fmt.Errorf("%w: unknown content encoding %q", ErrMalformed, value)
		}
		i = f.End
	}
	if string(apiVersion) != t.APIVersion || string(kind) != t.Kind {
		return nil, fmt.Errorf("%w: %s %s where %s %s belongs", ErrMalformed, apiVersion, kind, t.APIVersion, t.Kind)
	}
	return raw, nil
}

func typeMeta(b []byte) (apiVersion, kind []byte, ok bool) {
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok {
			return nil, nil, false
		}
		if f.Type == protobuf.Bytes {
			switch f.Num {
			case 1:
				apiVersion = b[f.Start:f.End]
			case 2:
				kind = b[f.Start:f.End]
			}
		}
		i = f.End
	}
	return apiVersion, kind, true
}

// message is a kind's message taken apart around the place of the resource version. The parts are sub-slices.
type message struct {
	head []byte // metadata before field 6
	tail []byte // metadata after field 6
	rest []byte // the message after metadata
}

// splitMessage takes a message apart. It reports false when the message does not have the form in which the
// generated marshallers write it: metadata once and first, its fields in ascending order, its labels sorted. What is
// read from a Version afterwards relies on that.
func splitMessage(msg []byte) (m message, ok bool) {
	meta, ok := protobuf.Next(msg, 0)
	if !ok || meta.Num != 1 || meta.Type != protobuf.Bytes {
		return m, false
	}
	b := msg[meta.Start:meta.End]
	cut, resume := -1, 0 // b[cut:resume] is an old resource version
	prev := int32(0)
	label := ""
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok || f.Num < prev || (f.Num <= metaResourceVersion && (f.Type != protobuf.Bytes || f.Num == prev)) {
			return m, false
		}
		if f.Num == metaLabels {
			key, _, ok := splitEntry(b[f.Start:f.End])
			if f.Type != protobuf.Bytes || !ok || (prev == metaLabels && string(key) <= label) {
				return m, false
			}
			label = view(key)
		}
		if cut < 0 && f.Num >= metaResourceVersion {
			cut, resume = i, i
			if f.Num == metaResourceVersion {
				resume = f.End
			}
		}
		prev = f.Num
		i = f.End
	}
	if cut < 0 {
		cut, resume = len(b), len(b)
	}
	m.head, m.tail, m.rest = b[:cut], b[resume:], msg[meta.End:]
	for i := 0; i < len(m.rest); {
		f, ok := protobuf.Next(m.rest, i)
		if !ok || f.Num == 1 {
			return m, false
		}
		i = f.End
	}
	return m, true
}

// metadataSize is the length of the metadata message with a resource version of digits bytes.
func (m *message) metadataSize(digits int) int {
	return len(m.head) + protobuf.SizeBytes(digits) + len(m.tail)
}

// append appends the message with the resource version that rev holds in decimal. In etcd it is there, too, but empty,
// as the generated marshallers write empty strings.
func (m *message) append(dst, rev []byte) []byte {
	dst = append(dst, tagMetadata)
	dst = protobuf.AppendUvarint(dst, uint64(m.metadataSize(len(rev))))
	dst = append(dst, m.head...)
	dst = append(dst, tagResourceVersion, byte(len(rev)))
	dst = append(dst, rev...)
	dst = append(dst, m.tail...)
	return append(dst, m.rest...)
}

// seal returns a complete envelope around the message in one allocation of the exact size.
func (m *message) seal(head, rev []byte) []byte {
	msgSize := protobuf.SizeBytes(m.metadataSize(len(rev))) + len(m.rest)
	size := len(head) + protobuf.SizeUvarint(uint64(msgSize)) + msgSize + len(envelopeTail)
	dst := append(make([]byte, 0, size), head...)
	dst = protobuf.AppendUvarint(dst, uint64(msgSize))
	return append(m.append(dst, rev), envelopeTail...)
}

// revision is a decimal resource version without an allocation.
type revision struct {
	buf [20]byte
	n   int
}

func formatRevision(rev int64) (r revision) {
	r.n = len(strconv.AppendInt(r.buf[:0], rev, 10))
	return r
}

func (r *revision) bytes() []byte { return r.buf[:r.n] }
