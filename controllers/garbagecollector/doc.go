// Package garbagecollector deletes objects whose owners are gone, and holds owners back until their dependents are.
//
// # What is deleted when
//
// An object with owner references lives as long as one of its owners does. When the last is gone it is deleted. An owner
// that is deleted in the foreground (finalizer foregroundDeletion) counts as gone already, and itself waits for those dependents
// whose reference says blockOwnerDeletion; one that is deleted with orphans (finalizer orphan) waits until no dependent refers to it
// any more. A reference names group, version, kind, name and uid, and an owner is only what agrees in all: another object that
// has taken the name is none.
//
// # The graph is the caches
//
// There is an informer of metadata for every resource that can be listed, watched and deleted, with two indexes: by uid, and by
// the uids of the owners. An owner is found by kind and name in one lookup, dependents by one lookup in each informer. There is
// no second graph that could disagree with the caches. A queue holds the objects that have to be looked at; what is done
// with one depends only on what is, never on which event was seen (see decide.go).
//
// # Why nothing is missed
//
// Let D refer to X. Of two events somebody has to look at D: "D appears" (or its references change) and "X goes" (or begins to go in the
// foreground). Both handlers run after the event is in their informer's indexer, and then read the other's:
//
//	D appears:  write D to the caches;  read whether X is there     not there, or going: queue D
//	X goes:     write X to the caches;  read the dependents of X    queue each
//
// Indexers are guarded by locks, so one of the two reads comes after both writes, and whichever handler does it queues D. It does not
// matter how the two informers are delayed against each other, nor whether events were merged or replaced by a list. Events before
// the first lists are complete are skipped, all objects are looked at instead. An owner that no informer has but that is there when
// asked for (its informer is behind, or its kind cannot be watched) is asked for again after a while.
//
// # Why nothing is deleted too much
//
// Caches only raise suspicion. Before D is deleted, D itself and each owner that the caches do not have are read from the server;
// only a uid that a watch has reported deleted, or that was found absent once, needs no second request, since uids do not come
// back. The deletion has D's uid and the version that was judged as preconditions. Where it fails because of the version and the
// references are still the same it is repeated with the uid alone, or a busy object could not be collected.
//
// # What is not promised
//
// An owner deleted with orphans or in the foreground waits for dependents that the caches show. A reference to it that
// is made at the same moment may be missed there, as upstream; the dependent is then collected when the owner is gone.
//
// Cluster-scoped objects that refer to an owner of a namespaced kind, which can mean nothing, are left alone. They and objects that refer to an
// owner in another namespace get an event, OwnerRefInvalidNamespace.
//
// Follows upstream's pkg/controller/garbagecollector in what it does, not in how.
package garbagecollector
