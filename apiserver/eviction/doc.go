// Package eviction answers what is POSTed to pods/eviction: it deletes a pod if no disruption budget stands against that. A
// budget that allows it is charged first, under the resource version that was read: two evictions never share what one
// budget has left. It follows upstream's registry/core/pod/storage/eviction.go.
//
// It does not promise that the pod goes: a delete that fails after its budget was charged leaves the charge, which the
// disruption controller takes back after a while.
package eviction
