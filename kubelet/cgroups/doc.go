// Package cgroups keeps the control groups of a node's pods: upstream's tree, made with the cgroupfs driver, in
// cgroup v1 (every hierarchy that is mounted, hybrid ones included) and in v2.
//
//	ROOT/kubepods                          what all pods together may use: the node's allocatable
//	ROOT/kubepods/podUID                   a guaranteed pod
//	ROOT/kubepods/burstable                cpu.shares of all burstable pods' requests
//	ROOT/kubepods/burstable/podUID
//	ROOT/kubepods/besteffort               cpu.shares 2
//	ROOT/kubepods/besteffort/podUID        what all containers of the pod together may use
//
// The runtime puts the containers' groups below a pod's. ROOT is --cgroup-root. What a machine has no controller for
// (hugetlb, net_cls ...) is left out without an error.
//
// The groups are files and this package writes some ten of them, rather than through github.com/opencontainers/cgroups: that
// finds its mounts in state of the process, cannot be pointed at another tree, so that v2 could not be tested on a v1 machine, and
// brings its logger and eBPF along.
//
// Start reading at tree.go; what a pod's limits are is in limits.go, how much a group uses in usage.go.
package cgroups
