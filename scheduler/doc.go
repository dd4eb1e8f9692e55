// Package scheduler gives every pod that has none a node.
//
// It follows pods and nodes through informers. A cycle takes the pod that is most urgent from the queue and asks the plug-ins of its profile
// (package framework says at which points): filters which nodes would do, scores which is best. It assumes the pod there and binds it in the
// background, while the next cycle runs. Plug-ins look at an immutable snapshot of the nodes. Nothing polls: a pod that fits nowhere
// waits until an event happens that one of the plug-ins which refused it has named.
//
// It promises that a pod is bound at most once by this scheduler and that two of its decisions never count the same room
// twice; two schedulers of one name need leader election. It does not preempt, and knows no inter-pod affinity and
// topology spread yet: pods that ask for these are placed as if they did not, and an event says so. Pods that name resource claims wait.
//
// A pod is scheduled as the profile says that its spec.schedulerName names.
//
//	scheduler.go, follow.go  how it is put together, and what it hears of pods and nodes (glance.go: without decoding most of it)
//	cycle.go, binding.go     the two halves of a pod's way
//	profile.go               which plug-ins are asked
//	framework, plugins       the points, and the plug-ins that look at pods and nodes alone
//	volumes                  the plug-in for claims
//	queue, nodecache         which pod is next; what each node has and gives
package scheduler
