// Package read answers GET, LIST and WATCH from the watch cache.
//
// A get or a list decides on a snapshot (how fresh it must be, or exactly which one: [versions] in version.go), picks the
// selected objects and writes their shared bytes; nothing is decoded unless a table is asked for. A watch is a cursor
// and an encoder of events ([stream]): it owns no queue and, while nothing happens, no buffer.
//
// Functions that take an http.ResponseWriter return an error only as long as nothing has been written: the caller
// renders it. What goes wrong in a running watch becomes an ERROR event.
//
// The contract is docs/list-watch.md; upstream's counterparts are endpoints/handlers/get.go and watch.go.
package read
