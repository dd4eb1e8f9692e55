// Package transcode turns the protobuf encoding of a Kubernetes object into the JSON that encoding/json makes of the
// decoded Go object, byte for byte, without decoding it.
//
// [Compile] reads the protobuf and json tags of a Go type by reflection and makes a [Plan]; [Plan.Append] runs it over
// a message. The input is walked twice at each level: once to note where each field is, once in the order in which the
// Go struct has the fields, to write them.
//
// The plan knows what the generated marshallers write. Of everything else (a field of another wire type, a message that
// occurs twice, a group, a damaged value) Append says [ErrUnusual], and the caller lets the generated decoder and
// encoding/json decide, whose results and errors are the definition.
package transcode

import "errors"

// ErrUnusual comes from Append for input that only the generated decoder can judge.
var ErrUnusual = errors.New("unusual protobuf encoding")

// Plan is how one Go struct is written. A Plan is immutable.
type Plan struct {
	fields []field // in the order of the JSON members
	slots  []slot  // what the message's fields need, by field number
	proto  int     // how many of the fields have a place in the protobuf message
}

// slot is where a protobuf field number belongs.
type slot struct {
	index    int16 // into the noted positions; -1 when the number is unknown
	wireType byte
	repeated bool // lists and maps; others may occur once
	message  bool // a second occurrence would have to be merged
}

// field is one JSON member.
type field struct {
	key   string // with comma, quotes and colon: `,"name":`
	num   int32
	index int16 // into the noted positions; -1 for members without protobuf
	shape shape
	omit  omission
	value value
	fixed string // the text of a member without protobuf
}

// shape is what stands around values.
type shape uint8

const (
	single  shape = iota
	pointer       // null when absent
	list
	mapping // keys are strings
	inline  // the members of an embedded struct
	fixed   // no protobuf: always the zero value
)

// omission is when a member is left out.
type omission uint8

const (
	never    omission = iota
	empty             // omitempty: false, 0, "", nil, no elements
	zeroTime          // omitzero, on times only
)

// value is how one value is written.
type value struct {
	kind kind
	plan *Plan // for message
}

type kind uint8

const (
	text         kind = iota // string
	base64Bytes              // []byte
	boolean                  // bool
	int32s                   // int32 and smaller
	int64s                   // int64, int
	uint64s                  // unsigned
	message                  // struct with a plan
	timestamp                // metav1.Time
	microTime                // metav1.MicroTime
	duration                 // metav1.Duration
	quantity                 // resource.Quantity
	intOrString              // intstr.IntOrString
	fieldsV1                 // metav1.FieldsV1
	rawExtension             // runtime.RawExtension
	stringList               // a slice of strings that is a message: authentication's ExtraValue; in maps only
)

// isMessage reports whether the value is a message on the wire.
func (k kind) isMessage() bool { return k >= message }

// scalarWireType returns the wire type of a value.
func (k kind) wireType() byte {
	switch k {
	case boolean, int32s, int64s, uint64s:
		return 0
	}
	return 2
}
