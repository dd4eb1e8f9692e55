// Package informer is the client half of list and watch: it keeps a local copy of what an API server has, and tells those
// who asked what changes.
//
// A [Factory] has one [Informer] for each resource and selection, however many controllers use it, so the server sees one
// list and one watch. An informer's parts, in the order in which an event passes them:
//
//   - the reflector lists and watches, resumes after interruptions from the last version it saw, and lists again only when the
//     server no longer knows that version;
//   - the [Indexer] holds the newest version of every object, by key and by index values;
//   - each handler has a delta FIFO of its own, which sums up what happened to an object while the handler was busy.
//
// Objects stay bytes: an [Object] is what came over the wire, with its name and versions found by a scan. Nothing is decoded
// until someone asks a [Lister] for it, or has a [Handler] that wants Go types, and what they get is a fresh copy, so nobody can
// spoil the cache. Handlers that only put names into a queue ([Keys], [ControllerKeys]) never decode anything.
//
// # What is promised
//
// For each object a handler is told a history that really was, in order: OnAdd, then OnUpdate any number of times, then
// OnDelete, and perhaps OnAdd again. The indexer already has the new state when a handler is told of it. Nothing is told
// twice, also across reconnects. A deletion that was missed is told when a list shows it, with stale set.
//
// A slow handler delays nobody but itself. While it is busy, updates of one object become one, from the state it was told
// last to the newest, so what waits for it is bounded by the number of objects, not of events.
//
// # What is not promised
//
// That a handler sees every intermediate state; any order between different objects; that a read shows what the
// caller has just written: the local copy is behind the server by the time an event takes.
//
// # Start reading
//
// [Factory] and [EventHandler] to use it; reflector.go and deltafifo.go to see how it works. Package informer/workqueue has the
// queue that controllers put the names in.
package informer
