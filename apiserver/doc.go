// Package apiserver is the API server: HTTPS in front, the watch cache and the store behind, and between them the way
// of a request as one straight line of code (handler.go):
//
//	identity → path → route → audit → impersonation → its turn → authorization → read or write
//
// In the order of that way:
//
//	newcomers.go, connection.go, identities.go, authentication.go   connections, and who is behind them
//	handler.go            the way of a request, and its end
//	served.go, serve.go   what is served: rows, routes and documents, one immutable state; how it is replaced while the server runs
//	audit.go              what is written down of a request
//	body.go               when its body is read
//	fairness.go, inflight.go   when it is its turn
//	resource.go           requests for API resources; reads go to package read, writes to package write
//	answers.go            reads of kinds that are made for the request
//	collection.go         what a deletecollection deletes
//	connect.go            subresources through which bytes flow; they go to package connect
//	paths.go, version.go  everything else: health, metrics, version, discovery, OpenAPI, profiling
//	recorder.go           how the response is written
//
// What it is made of:
//
//	config.go, server.go  how it is put together, starts and stops
//	admission.go          the chain that writes pass
//	tokens.go             service account tokens
//
// Packages below know no kind by name (read, write, admission, decode, negotiate, respond, table, discovery, openapi, authn, authz, audit ...), but for
// those that are about one: accessreview, bootstrap, componentstatus, connect, eviction, flowcontrol, resourcemetrics, serviceaccount, serviceip, and the
// plug-ins below admission.
//
// The server knows no kind by name: everything about kinds comes from the table of package kinds. It keeps no state of
// its own beside the caches, so any number of servers may run on one etcd.
package apiserver
