// Package containerd runs the container runtime of a node: containerd with runc and the CNI plug-ins, as `make runtime` has built
// them (module runtimes).
//
// A Daemon writes containerd's configuration, starts it, sees that it answers the Container Runtime Interface, keeps it running, and
// loads images. What it promises:
//
//   - Containers do not depend on this process. containerd and its shims are in sessions of their own; when Vigil is
//     killed they live on, and the next Start finds them and goes on with them (adopts them), unless the programs or the
//     configuration have changed: then containerd alone is started again, and containers still live on.
//   - When containerd dies it is started again, with a growing pause when it keeps dying.
//   - Several Daemons on one machine share nothing, if RootDir, StateDir and CNIConfDir differ.
//
// It does not talk about pods: that is kubelet/cri. Start reading at Daemon.
package containerd
