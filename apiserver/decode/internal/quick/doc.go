// Package quick decodes JSON into Go structs of API types, for the bodies that nearly all clients send: well-formed, no unknown or
// repeated field, every value of its field's type. It does so in one pass, along a plan made once for each Go type, and its strings share
// one copy of the body.
//
// It promises that what it decodes is what sigs.k8s.io/json's UnmarshalStrict makes of it without an error or a complaint. It does not promise to
// decode all that this does: on anything else, and on what it does not know (interfaces, floats, TextUnmarshalers, unpaired
// surrogates), it gives up, and the caller takes the library, which also says what is wrong.
//
// Start with [Unmarshal]; plan.go says how a type is decoded, value.go does it, scan.go reads tokens.
package quick
