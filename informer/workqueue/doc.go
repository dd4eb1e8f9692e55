// Package workqueue runs a controller's loop: names go into a queue, workers take them out and reconcile.
//
// A name is in the queue at most once and is worked on by at most one worker at a time; when it is added while it is being
// worked on, it is worked on once more afterwards. A name whose reconciliation failed comes back after a time that grows
// with each failure in a row (client-go's default rate limiter: 5 ms to 1000 s, and 10 a second overall).
package workqueue
