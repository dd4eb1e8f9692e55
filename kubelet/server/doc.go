// Package server is the kubelet's API: HTTPS on port 10250, for the API server, for metrics and for administrators. It shows pods and
// statistics, sends logs, and connects to containers.
//
// Nobody is let in without proof: a client certificate of the cluster's authority, or a token that a TokenReview knows. What a caller may do
// the API server decides, by SubjectAccessReviews about nodes/proxy or the narrower nodes/pods, healthz, configz, stats, metrics, log and
// checkpoint (KEP-2862). Answers are kept for a while, as upstream's are: rights taken away end at the latest five minutes later.
// Anonymous requests are refused unless Config.Anonymous allows them; upstream allows them by default, and every installer turns it off.
//
// Sessions (exec, attach, portForward) are the container runtime's: it gives out a URL for each, and the server stands in between, so that
// the runtime's address and its secret never leave the node. A session over a WebSocket of version 5 is translated to SPDY, which runtimes
// speak. Logs are read from the files that the runtime writes.
//
// What the server needs of the kubelet are the interfaces in server.go.
package server
