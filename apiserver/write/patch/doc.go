// Package patch applies the patches that clients send: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and strategic
// merge patch, which knows from the Go type's struct tags how lists merge. Limits and error texts are kube-apiserver's.
//
// A patch works on one object in the request's version, or on a view of one (scale): it takes the current state and
// fills in the next. Whether the result is allowed, and what to do when somebody else was faster, is the caller's
// business; so is server-side apply, which is no patch but a merge of owners.
//
// Start with [Parse].
package patch
