// Package watchcache answers lists and watches from memory: snapshots of the objects, a log of the events, and
// cursors into it.
//
// A [Server] has one feed of the store for all its caches, so that it has one notion of "complete up to revision R". A
// [Cache] holds one resource: a persistent tree of its objects, whose every published version is immutable, and a
// window of events. A [Snapshot] is a pointer to a tree; lists, pages of lists and the initial events of watches read it
// without a lock. A watcher is a [Cursor] in the event log: it owns no queue and no goroutine, so thousands cost
// what they are sent, and a slow one costs nothing and delays nobody.
//
// # What is promised
//
// The stream of a watch that starts after revision N is exactly the history of the resource after N, seen through the
// selection: each event once, in revision order, with type and content as the selection sees it (an object that
// enters is Added, one that leaves is Deleted with its previous content). In other words: what a cursor has returned is
// always a prefix of that. A watch with initial events begins with the selected objects of one snapshot instead, and
// goes on behind its revision. When a cursor cannot go on without a gap it ends with [ErrExpired]; it never skips.
// [Cursor.Progress] is a revision at which nothing selected is missing before, and nothing has been returned that is
// after it: a safe place to resume at.
//
// A snapshot shows exactly the writes up to its revision. [Server.Consistent] followed by [Cache.Snapshot], which is
// what [Cache.Read] does, shows every write that was acknowledged before the call.
//
// # What is not promised
//
// Two caches of one server are read one after the other; their snapshots may have different revisions. History is
// kept within [Window], not longer. A stored value that cannot be read as an object makes lists that may concern it fail,
// and no event: watchers see the object as it was until it can be read again or is deleted.
//
// # The log
//
// Events are links of a chain, the main branch. Watchers that select a namespace, an object or a value of an indexed
// field stand on a branch of their own, which only the events that concern them are put on:
//
//	chunks            [ 64 events | tree before them ] [ 64 events | tree ] [ open ]
//	main branch       head -> e1 -> e2 -> e3 -> e4 -> ... -> e99 (tail)
//	nodeName=node-7                  \-> e2' ------------> e97' (tail)        <- cursor: caught up
//
// Appending is setting one next pointer for each branch and waking who waits there. Trimming cuts the link in front of
// the first event off, so a cursor that stands there neither goes on nor keeps what is behind it in memory.
//
// Start reading at [Server], then cache.go for a batch on its way in, log.go for the window, cursor.go for the way out.
//
// Lock order: Server.mu, Cache.mu, branch.mu. No callback is called with Cache.mu or branch.mu held.
package watchcache
