// Package scheduler gives every pod that has none a node.
//
// It follows pods and nodes through informers. A cycle takes the pod that is most urgent from the queue, asks the filters
// which nodes would do and the scores which is best, assumes the pod there, and binds it in the background through the
// binding subresource while the next cycle runs. Nothing polls: a pod that fits nowhere waits until an event happens that
// one of the filters which refused it named.
//
// It promises that a pod is bound at most once by this scheduler and that two of its decisions never count the same room
// twice; two schedulers of one name need leader election. It does not preempt, and knows no inter-pod affinity, topology
// spread or volumes yet: pods that ask for these are placed as if they did not.
//
// Start reading at cycle.go; queue, nodecache and plugins tell their own stories.
package scheduler
