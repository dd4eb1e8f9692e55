// Package probe asks containers how they are: by HTTP, TCP, gRPC or a command in the container. It also sends the requests of
// lifecycle hooks.
//
// What counts as success, and the texts of failures, which people see in events, are upstream's (pkg/probe). One question opens
// one connection, closes it without leaving it in TIME-WAIT for long, and starts no goroutine that outlives it. When to ask, and
// what follows from the answers, is the kubelet's business.
package probe
