// Package nodestatus tells the cluster of a node: it makes the Node object and keeps its status (Reporter), and renews the Lease that says that the node
// is alive (Lease, KEP-589).
//
// The status is written when it says something else than the API server has, and now and then when it does not. What the API server has is known from a
// watch of this one Node, so a node to which nothing happens asks nothing. Register retries until the API server is there; Look and Keep do one step and say
// when the next is due, so that a process with thousands of nodes needs no goroutine for each. Neither may be called by two goroutines at once.
//
// Who measures the node is not here: Config has what never changes, Config.Describe adds the rest. Start reading at reporter.go.
package nodestatus
