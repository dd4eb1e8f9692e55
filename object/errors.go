package object

import "errors"

var (
	// ErrMalformed comes from [NewVersion] and the accessors of bytes that are no valid encoding of the type's objects:
	// a damaged envelope, another kind or API version, invalid JSON.
	ErrMalformed = errors.New("malformed object")

	// ErrNoProtobuf comes from the protobuf accessors of objects that exist as JSON only (custom resources).
	ErrNoProtobuf = errors.New("type has no protobuf encoding")
)
