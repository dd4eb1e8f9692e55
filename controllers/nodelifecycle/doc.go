// Package nodelifecycle notices when nodes fall silent and draws the consequences.
//
// A node is alive as long as its kubelet renews the Lease of its name in kube-node-lease, or writes the heartbeat of its Ready condition.
// What counts is when this controller sees a renewal, by its own clock: clocks of nodes are not compared. From a silent node to
// replaced pods it goes in steps, each taken from what the API server has, so that a restarted controller carries on:
//
//	silent for the grace period   all conditions become Unknown (health.go), the node's pods are not Ready (pods.go)
//	Ready is not True             taints not-ready or unreachable: NoSchedule at once, NoExecute as fast as the
//	                              zone's state allows (taints.go, zones.go)
//	taint NoExecute               pods are deleted when their tolerations end (eviction.go)
//	Node deleted                  its pods fail and are deleted when it has not come back after a while (podgc.go)
//	taint out-of-service          its pods that are being deleted fail and go at once, if it is not ready (podgc.go)
//
// Each step is undone when the node is heard of again and reports Ready. Two brakes keep a failure of the network, or of
// this controller, from emptying a cluster: nodes of a zone get NoExecute one by one, slowly or not at all when most
// of a larger zone is gone; and when no node is Ready at all, none gets it, and those that have it lose it. So the pods of a
// one-node cluster stay where they are.
//
// A kubelet that says itself that its node is not ready goes on to speak for its pods; only for a node that is silent this controller
// marks them, once for each silence.
//
// Pods of an unreachable node stay Terminating until its kubelet says that they have ended, the Node is deleted, or a person taints it
// as out of service: nobody else can know.
//
// Follows upstream's pkg/controller/nodelifecycle, tainteviction and podgc.
package nodelifecycle
