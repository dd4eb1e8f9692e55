// Package kubelet runs the pods of one node.
//
// It follows the pods bound to its node (spec.nodeName=NODE) and those of manifests on the node, gives each a worker of its own, and
// has the worker bring the node to where the pod's spec wants it: cgroup, volumes, a sandbox, init containers and sidecars one after
// another, then the containers, restarted as their policies say. What the runtime shows is written back as the pod's status. The
// Node object and a Lease in kube-node-lease tell the cluster that the node is alive.
//
//	watch, manifests -> worker (one goroutine for a pod) -> Runtime, Parts
//	                           \-> status manager -> API server
//	Runtime events, probes, changed volumes ----^ (the worker looks again)
//
// Everything is level-triggered. A round of a worker observes what the runtime has of the pod, computes what is missing or too much
// (compute, a function without side effects), and does it; what fails is waited for and tried again, and the pod's status and events
// say why. A worker never waits for another. What may take long and be given up - pulls, hooks, volumes that are not there - ends when
// the pod is to end; sandboxes and containers that are being made are made.
//
// The containers do not depend on the kubelet: it may end and start again, and finds them by asking the runtime. What pods were given
// of the node is in a file below RootDir; delays of restarts are read off statuses. Nor does the kubelet depend on the API server to
// keep going what runs, and to start what manifests say.
//
// The runtime is an interface: package cri implements it over a container runtime, package simulated without one. What else a node
// with real containers needs are Parts, implemented in packages beside. Package node puts all of it together.
//
// What needs no worker is in packages below: prober (when containers are asked how they are), nodestatus (what the cluster is told of the node), manifests
// (files become static pods), allocation (what pods were given). Start reading at sync.go, then actions.go.
package kubelet
