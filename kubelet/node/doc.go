// Package node puts a whole node together: certificates, a container runtime, the kubelet and all that it works with. It is the only place that does
// so. `vigil up`, `vigil kubelet` and the tests of package nodetest run the same node.
//
//	Config -> Prepare -> certificate, client of the API server -+- simulated node: a kubelet over package simulated
//	                                                            +- real node: New, Run
//
// New goes from the machine upwards, in steps that have names: directories, runtime, cgroups, network, volumes, statistics, evictions, kubelet, server. Run runs
// what they made; the first part that ends ends the others. Containers run on when a node ends, and the next one takes them over.
//
// Where a node keeps what in a data directory is in layout.go, because `vigil down` removes what nodes have left. What a cluster is made of is not decided
// here: that is package cluster.
package node
