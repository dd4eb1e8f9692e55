// Package object holds an API object as bytes.
//
// A [Version] is one immutable version of one object: its key, its revision and its encodings. What etcd holds is
// what most readers want, so nothing is decoded to serve a list or a watch: the stored protobuf gets its resource
// version by appending a second metadata message (a protobuf decoder merges the two), JSON is made at most once on
// first demand, and both are shared by every reader.
//
// All byte slices that come out of this package are shared and must never be changed.
package object
