// Package object holds an API object as bytes.
//
// A [Version] is one immutable version of one object: its key, its revision and its encodings. What etcd holds is
// what most readers want, so nothing is decoded to serve a list or a watch. [NewVersion] copies the stored bytes once,
// into a buffer of the exact size, and writes the resource version (which etcd cannot hold, since it is the revision of
// the write itself) into the metadata on the way. The result is byte for byte what the upstream serializer makes of the
// decoded object. JSON is made at most once, on first demand, by a transcoder that reads the protobuf directly.
// All forms are shared by every reader.
//
// The metadata-only forms, the list items and the selectable values (labels, fields) are sub-slices of the same bytes.
//
// # Ownership
//
// Every byte slice and string that comes out of this package is shared and must never be changed. A string that was
// scanned keeps the whole object's bytes alive; clone it to keep it longer than the Version.
//
// # What is not promised
//
// NewVersion checks the envelope, the type and the metadata, not the whole object: damage further in comes to light as
// an error of [Version.JSON] or [Version.Decode], never as a panic.
//
// Start reading at [Version], then construct.go for how one is made and list.go for how responses are put together.
package object

import (
	"strings"
	"sync/atomic"
	"unsafe"
	"weak"

	"vigil/internal/protobuf"
)

// Version is one version of one object. It is immutable and safe for use by many goroutines; encodings that are made
// on demand are made once and kept until they are released.
type Version struct {
	typ  *Type
	key  string
	rev  int64
	wire []byte // the complete served form: protobuf envelope or JSON

	made atomic.Pointer[encodings] // nil until another form is asked for

	origin weak.Pointer[Version] // of a twin: where to look for JSON first

	// Offsets into wire.
	msg     uint32 // start of the kind's own message; 0 in JSON
	meta    uint32 // start of the metadata message; in JSON of the metadata object, its '{'
	metaEnd uint32 // end of the metadata message; in JSON behind its '}'
	rv      uint32 // first digit of the resource version
	labels  uint32 // tag of the first label; in JSON the '{' of the labels; 0 when there are none
}

// Type returns the type the version was made with.
func (v *Version) Type() *Type { return v.typ }

// Key returns the full etcd key.
func (v *Version) Key() string { return v.key }

// Revision returns the etcd revision, which is the resource version on the wire.
func (v *Version) Revision() int64 { return v.rev }

// Name returns the last segment of the key.
func (v *Version) Name() string { return v.key[strings.LastIndexByte(v.key, '/')+1:] }

// Namespace returns the segment of the key before the name, "" for types without namespaces.
func (v *Version) Namespace() string {
	if !v.typ.Namespaced {
		return ""
	}
	end := strings.LastIndexByte(v.key, '/')
	if end < 0 {
		return ""
	}
	return v.key[strings.LastIndexByte(v.key[:end], '/')+1 : end]
}

// UID returns metadata.uid, "" when there is none.
func (v *Version) UID() string {
	if !v.isProto() {
		return v.jsonMeta("uid")
	}
	return v.metaString(metaUID)
}

// SizeBytes returns the memory that the version holds now, in bytes: itself, its key and all encodings made so far.
func (v *Version) SizeBytes() int {
	n := int(unsafe.Sizeof(*v)) + len(v.key) + cap(v.wire)
	if made := v.made.Load(); made != nil {
		n += made.sizeBytes(v)
	}
	return n
}

// WireBytes returns the length of the served form: protobuf, or the JSON of types without it.
func (v *Version) WireBytes() int { return len(v.wire) }

// isProto tells the two forms of wire apart: a message never starts at 0 in an envelope.
func (v *Version) isProto() bool { return v.msg != 0 }

// message returns the kind's own message with the resource version. Only for protobuf.
func (v *Version) message() []byte {
	end := len(v.wire) - len(envelopeTail)
	return v.wire[v.msg:end:end]
}

// split returns the message around the resource version. Only for protobuf.
func (v *Version) split() message {
	end := len(v.wire) - len(envelopeTail)
	tail := int(v.rv) + int(v.wire[v.rv-1])
	return message{
		head: v.wire[v.meta : v.rv-2],
		tail: v.wire[tail:v.metaEnd],
		rest: v.wire[v.metaEnd:end],
	}
}

// metaString returns the string field num of the metadata. Only for protobuf.
func (v *Version) metaString(num int32) string {
	b := v.wire[v.meta:v.metaEnd]
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok || f.Num > num {
			return ""
		}
		if f.Num == num {
			return view(b[f.Start:f.End])
		}
		i = f.End
	}
	return ""
}

// view returns b as a string without copying it. b must never change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
