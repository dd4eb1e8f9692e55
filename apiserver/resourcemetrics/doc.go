// Package resourcemetrics answers metrics.k8s.io: what nodes and pods use, asked of the kubelets. It is what `kubectl top` and
// autoscalers read, without a metrics-server.
//
// Kubelets are asked when somebody wants to know, at most every 15 s each, and only those whose pods are wanted: a cluster in
// which nobody asks pays nothing. The figures are the kubelets' own (/stats/summary, CPU over the last 10 s); nothing is
// kept but the last answer of each node. A node that does not answer is left out once its last answer is a minute old,
// as metrics-server leaves out what it cannot scrape. Simulated nodes have no figures.
//
// A real metrics-server takes over by its APIService, once this server passes requests on to those (aggregation); until then
// the group is this package's.
package resourcemetrics
