// Package decode reads request bodies into Go objects: JSON, YAML and protobuf, with the field validation a client asks
// for and the errors of kube-apiserver (all are BadRequest Statuses, but for the media type: 415).
//
// A body of the expected kind, which is nearly every body, is parsed exactly once, straight into the object. What was
// wrong with any other is found out afterwards, from the bytes. Bodies that would cost more than their size says are refused (package
// bounds). It sets no defaults and looks at no metadata.
//
// Start with [Into].
package decode
