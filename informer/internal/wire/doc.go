// Package wire reads Kubernetes lists and watch streams without decoding the objects in them.
//
// A reader of this package finds where one object's bytes begin and end and where in them stand the few things that
// an informer needs at once: name, namespace, uid, resourceVersion and whether a bookmark ends the initial events.
// Both encodings are read, protobuf and JSON. The bytes come from a server that may be broken or hostile: nothing in
// here panics, reads out of bounds or allocates more than a small multiple of what really arrived.
//
// [Stream] reads a watch; [ReadList] reads a list; [Meta] holds what was found in one object.
package wire

import "errors"

// ErrMalformed is wrapped by every error that says the bytes are not what they must be.
var ErrMalformed = errors.New("malformed")

// ErrTooLarge comes when one frame or object is larger than MaxObject.
var ErrTooLarge = errors.New("object too large")

// MaxObject is the size of the largest object that is read, in bytes. API servers take requests of 3 MiB at most and
// etcd values of 1.5 MiB; JSON of the same object may be some times larger.
const MaxObject = 32 << 20

// Encoding says how an object's bytes are to be read.
type Encoding uint8

const (
	// Proto is the kind's own protobuf message, without the k8s\0 envelope.
	Proto Encoding = iota
	// JSON is one JSON object.
	JSON
)

// Meta is what is read of one object. The spans are relative to the object's bytes.
type Meta struct {
	Name, Namespace, UID, ResourceVersion Span
	// InitialEventsEnd is set on the bookmark that ends the initial events of a streaming list.
	InitialEventsEnd bool
}

// Span is a part of some bytes: from Start up to but not including End. The zero Span is empty.
type Span struct{ Start, End int }

// Of returns the part of b. The caller must not change it when it may not change b.
func (s Span) Of(b []byte) []byte { return b[s.Start:s.End] }

// Len is the number of bytes in the span.
func (s Span) Len() int { return s.End - s.Start }
