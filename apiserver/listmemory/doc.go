// Package listmemory bounds the memory of responses that are being written: what is held between a snapshot of a watch cache and the
// sockets, for the whole server and for each client.
//
// Who is about to answer takes a [Grant] for the bytes it will hold, and waits while its client or the server has no room. Clients take turns,
// the requests of one client come in order. A request for more than a limit is let in when nothing else counts against that limit,
// so that it is never refused for good.
//
// A list refers to a snapshot, and so keeps the objects in memory that have been replaced since. All lists of a cache share
// most of these, so they are not counted for each but for each cache: the bytes that were replaced since the oldest list under way began. They
// count against the server's limit. Those who hold too much and do not read are cut off:
//
//   - while somebody waits, whoever has not taken a byte for [Config.Patience];
//   - when replaced objects alone exceed half of the server's limit, whoever holds the oldest of them.
//
// So a limit is kept but for one request each that is larger than it, and for what is replaced between two checks of [Budget.Run].
// What is kept for all readers anyway (objects in the cache, their encodings) does not count.
package listmemory
