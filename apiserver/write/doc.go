// Package write is the write half of the API: create, update, patch, delete, deletecollection and the subresources that
// write. There is no HTTP in it: a [Request] comes in with its body read, a [Result] goes out with the stored object as
// bytes, and every error is an [k8s.io/apimachinery/pkg/api/errors.APIStatus] with kube-apiserver's code, reason and
// text.
//
// A write starts from the cached object, computes the next one and stores it with a compare-and-swap on the revision
// it started from. When somebody else was faster, etcd hands back what is there now and the write starts again from
// that; a client that named a resourceVersion gets a Conflict instead. No update is ever lost, and no refusal is ever
// founded on a stale cache: before an error or a "nothing to do" goes out, it has been checked against etcd.
//
// What a write of a certain kind does beyond this stands in its row of the table (package kinds), or in a [Hook] where
// it needs something outside the object (service addresses).
//
// Start with [Writer.Create]; run.go has the loop, metadata.go the rules of metadata.
package write
