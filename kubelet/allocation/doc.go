// Package allocation remembers what the pods of a node were given of it, which is less or more than they ask for while a resize is not decided (KEP-1287).
//
// It decides nothing: the kubelet admits pods and decides about resizes. It knows two things of each pod: what the kubelet has promised to it, and with
// what its containers run. Both outlive the kubelet, in a file below its root directory. Its methods may be called at any time by many goroutines.
package allocation
