// Package cri runs the containers of a node over the Container Runtime Interface (k8s.io/cri-api): containerd or CRI-O at
// a socket. Runtime is its door; it implements kubelet.Runtime, and beside that what the kubelet's server, statistics and garbage
// collection need of a runtime.
//
// What the runtime shows of each pod is kept here (cache.go), because the kubelet asks for it in every round of every pod. It is
// kept correct in three ways, all of which end in one merge: events that the runtime sends (KEP-3386), what is asked after each
// action of our own, and a relist every few minutes, or every second from a runtime that sends no events. Merging needs no order:
// a container only goes forward, from created to running to exited to gone, so of two pictures of it the one further on is the
// newer one, however late it arrives. Events of one pod may well overtake each other in containerd.
//
// Names, labels, annotations and paths are upstream's kubelet's, so that crictl and log collectors know their way, and so that
// either kubelet can take over the other's containers:
//
//	<pod-log-dir>/<namespace>_<name>_<uid>/<container>/<attempt>.log
//	<pod-log-dir>/../containers/<name>_<namespace>_<container>-<ID>.log   a link to it
//	<root-dir>/image_manager/...   which images were pulled with whose credentials
//
// Start reading at runtime.go, then cache.go and follow.go; sandbox.go and container.go turn pods into what the interface asks for.
package cri
