// Package quota is the admission plug-in ResourceQuota: it books what new objects use in the status of the namespace's quotas, and
// refuses what would exceed them.
//
// # What is promised
//
// No quota is exceeded however many requests there are at once: each booking is a compare-and-swap of the quota in etcd, before the
// object is stored. Requests for one namespace that wait together are booked together, with one write for each quota they
// concern.
//
// A recalculation (by the controller, through quota/status) cannot lose a booking whose object it has not seen yet: this server adds
// what it has booked and not yet stored, or has stored only a moment ago. That holds for the bookings of the server which the
// recalculation comes through; upstream's has this gap for all of them.
//
// # What is not promised
//
// That a quota shows what is there: a booking whose object was refused or could not be stored stays until the controller has
// recalculated. A quota counts from the moment on that the controller has copied its limits into its status.
//
// Start reading at Plugin; booking.go has the batches, pending.go what is booked and not yet seen. Package kinds/quota knows what
// counts.
package quota
