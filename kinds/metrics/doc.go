// Package metrics has the rows of metrics.k8s.io/v1beta1: what nodes and pods use, as upstream's metrics-server serves it. They are
// asked when they are read and stored nowhere (apiserver/resourcemetrics).
package metrics
