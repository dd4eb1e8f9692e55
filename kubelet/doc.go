// Package kubelet runs the pods of one node.
//
// It follows the pods bound to its node (spec.nodeName=NODE), gives each a worker of its own, and has the worker bring the
// runtime to where the pod's spec wants it: a sandbox, init containers one after another, then the containers, restarted
// as the restart policy says. What the runtime shows is written back as the pod's status. The Node object and a Lease in
// kube-node-lease tell the cluster that the node is alive.
//
//	watch -> worker (one goroutine for a pod) -> Runtime
//	               \-> status manager -> API server
//	Runtime events ----^ (a container ended: the worker looks again)
//
// Everything is level-triggered: a worker compares the newest spec with what the runtime has and does the next thing. A
// worker never waits for another. The containers do not depend on the kubelet: it may end and start again, and finds
// them by asking the runtime.
//
// The runtime is an interface with one implementation, package simulated; start reading at sync.go.
package kubelet
