// Package managed keeps metadata.managedFields: who set which field of an object (server-side apply, KEP-555). Each kind
// and subresource has a [Tracker]. Its Apply merges the object that a client applies into the stored one and finds
// conflicts; its Update notes what a create, an update or a patch changed.
//
// Apply is the field manager of k8s.io/apimachinery. Update is on the path of every write, so it has a short way: a walk
// over both Go structs, along a plan made once from the Go type and the merge schema, finds what differs, and
// only the entries that this concerns are read and written anew. The outcome is the library's, which a property test
// shows. Whatever is unusual (entries sent by the client, other API versions, more than ten updaters, types without a plan) takes
// the library's way.
//
// plan.go says how a type is walked, walk.go compares, set.go writes and reads sets of fields in their JSON form,
// update.go puts entries together.
package managed
