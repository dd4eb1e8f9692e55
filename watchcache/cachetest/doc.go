// Package cachetest checks what list and watch promise, under random writes, watchers and mishaps, against anything
// that serves them: the cache in this process, or an API server over HTTP.
//
// The promises, in the words of the checks:
//
//   - A watch from revision N, with its reconnects, is exactly the history after N filtered by its selector: nothing
//     missing, repeated, reordered or different in content, until it is told that history has expired.
//   - The initial events of a watch are exactly what the selector selects at the revision of their bookmark, in key order.
//   - A bookmark's revision lies between the events before and after it, and nothing selected up to it comes later.
//   - A list is exactly what the selector selects at its revision; all pages show the same revision; a consistent list
//     is at least at the revision of the last write acknowledged before it.
//
// [Run] drives a [Target] and records; the checks run when all is over, against the [History] of acknowledged writes.
package cachetest
