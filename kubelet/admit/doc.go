// Package admit decides whether a pod that was bound to this node can run here. The scheduler has looked before, but its view may
// have been old, and not every pod comes from it.
//
// Each check is a kubelet.Admitter; reasons and messages are upstream's (pkg/kubelet/lifecycle/predicate.go, sysctl, preemption).
// A pod that has run before is let in again whatever has changed since: only what would harm the node is refused then.
package admit
