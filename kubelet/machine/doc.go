// Package machine says what a Linux machine has and how much of it pods may have: capacity, allocatable and the
// NodeSystemInfo of a Node's status, in upstream's names and units. It reads files of /proc, /sys and /etc each time it
// is asked and keeps nothing.
//
// A node's allocatable is its capacity without what is kept for the system, for the kubelet and for hard eviction thresholds
// (KEP "Node Allocatable Resources"). What cgroups enforce has no part for eviction, so that the kubelet evicts before the
// kernel kills.
package machine
