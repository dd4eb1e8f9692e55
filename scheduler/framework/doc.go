// Package framework is what plug-ins of the scheduler have in common: the points of a cycle at which they are asked, and what they answer.
// Names and order are upstream's (k8s.io/kube-scheduler/framework, KEP-624).
//
//	PreFilter   once for a pod: what follows from the pod and all nodes alone
//	Filter      for a pod and a node: may it run there?
//	PostFilter  when no node is left: can something be done about it?
//	PreScore    once for a pod and the nodes that are left
//	Score       for a pod and a node: how well would it run there? NormalizeScore compares the nodes
//	Reserve     once a node is chosen: keep what the pod needs from others; Unreserve takes it back
//	Permit      may the pod be bound now? It may wait
//	PreBind     what must be written before the pod is bound. It may wait
//	Bind        write the node into the pod
//
// All up to Reserve run in the one goroutine of the cycle and look at an immutable [nodecache.Snapshot]: they write nothing, wait for
// nobody, and take no lock for long. Permit and what follows run in a goroutine of the pod, beside the cycles of others.
//
// A plug-in implements the interfaces of the points that it has something to say at. What it keeps between points of one cycle is in the
// [CycleState].
package framework
