// Package eviction keeps a node alive that runs short of memory, disk or process IDs: it takes back what nobody needs, says in the
// node's conditions that there is pressure, refuses pods, and ends pods, one at a time, until there is enough again. It also ends pods that use
// more of the node's disk than they said they would. Thresholds, ranking, texts and numbers are upstream's.
//
//	summary of package stats -> observations -> thresholds that are met (hard at once, soft after their grace)
//	   -> conditions, for --eviction-pressure-transition-period after the last time
//	   -> remove dead containers and unused images -> enough? -> else evict the pod that ranks first
//
// What is decided when is state.go, without clock and side effects; manager.go does it. The taints that keep pods away from
// a node under pressure are the node lifecycle controller's, from the conditions.
package eviction
