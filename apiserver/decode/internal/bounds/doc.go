// Package bounds refuses bodies that would cost more to decode, or later to compute with, than their size says: quantities with absurd
// exponents, and messages or JSON inside of protobuf that are nested so deeply that recursion overflows the stack.
//
// It reads the bytes before they are decoded, along a plan made once for each Go type, and enters only what leads to quantities, to raw JSON
// or to a type inside itself. It does not say whether a body is well-formed otherwise: the decoder does.
//
// Start with [Of]; plan.go says what is looked at, protobuf.go, json.go and fields.go look.
package bounds
