// Package apiserver is the API server: HTTPS in front, the watch cache and the store behind, and between them the way
// of a request as one straight line of code (handler.go):
//
//	identity of the connection → path → limits on requests in flight → authorization → route → read or write
//
// Where to look:
//
//	config.go, server.go  what it is made of, how it starts and stops
//	served.go             what is served: rows, routes and documents, one immutable state that is replaced as a whole
//	serve.go              how kinds come and go while the server runs
//	handler.go            the way of a request
//	resource.go           requests for API resources; reads go to package read, writes to package write
//	paths.go              everything else: health, metrics, version, discovery, OpenAPI, profiling
//
// The server knows no kind by name: everything about kinds comes from the table of package kinds. It keeps no state of
// its own beside the caches, so any number of servers may run on one etcd.
package apiserver
