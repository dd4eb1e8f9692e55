// Package flowcontrol decides whose turn it is when more is asked of the server than it can do at once: API Priority and
// Fairness (KEP-1040), by upstream's own engine (k8s.io/apiserver/pkg/util/flowcontrol).
//
// What this package adds: the engine reads FlowSchemas and PriorityLevelConfigurations from the server's watch caches and writes their
// status through the server's writer, without a connection to itself (source.go, status.go); the objects that must be there are made and kept
// (ensure.go); the seats of a list come from the number of objects in the cache (seats.go); and a watch holds its seat only until its
// response begins.
//
// A write is one seat, whoever watches: here no writer pays for its watchers, each event being encoded once for all of them.
//
// Start reading at [New], then request.go.
package flowcontrol
