package garbagecollector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type (
	ownerReference  = metav1.OwnerReference
	dependentObject = metav1.PartialObjectMetadata
)

// state is what is known of an owner.
type state int

const (
	solid   state = iota // it is there
	going                // it is there, being deleted in the foreground, and waits for its dependents
	missing              // it is not there, and never will be again
)

// verdict is what to do with an object that is not being deleted.
type verdict struct {
	remove bool                       // delete it
	policy metav1.DeletionPropagation // how

	drop      []types.UID // references to take out, when it is kept
	unblocked bool        // before it is deleted, no reference of it must hold an owner back: they wait for each other
}

// decide says what becomes of an object, given what is known of the owner behind each of its references.
//
//	owners                          the object
//	none                            stays
//	all solid                       stays
//	some solid                      stays, loses its references to the others
//	none solid, one going           is deleted; in the foreground if it has dependents, so that its owner waits for them, too
//	all missing                     is deleted, in the way that its finalizers ask for
//
// dependents says whether it has any, circular whether one of them is itself deleted in the foreground, which means that
// owner and dependent own each other in a circle and would wait for ever.
func decide(object *dependentObject, owners []state, dependents, circular bool) verdict {
	if len(owners) == 0 || !slices.ContainsFunc(owners, func(s state) bool { return s != solid }) {
		return verdict{}
	}
	if slices.Contains(owners, solid) {
		var v verdict
		for i, s := range owners {
			if s != solid {
				v.drop = append(v.drop, object.OwnerReferences[i].UID)
			}
		}
		return v
	}
	switch {
	case slices.Contains(owners, going) && dependents:
		return verdict{remove: true, policy: metav1.DeletePropagationForeground, unblocked: circular}
	case has(object, metav1.FinalizerOrphanDependents):
		return verdict{remove: true, policy: metav1.DeletePropagationOrphan}
	case has(object, metav1.FinalizerDeleteDependents):
		return verdict{remove: true, policy: metav1.DeletePropagationForeground}
	}
	return verdict{remove: true, policy: metav1.DeletePropagationBackground}
}

// blocks says that a reference of an object to owner holds the owner back.
func blocks(o *dependentObject, owner types.UID) bool {
	return slices.ContainsFunc(o.OwnerReferences, func(w ownerReference) bool {
		return w.UID == owner && w.BlockOwnerDeletion != nil && *w.BlockOwnerDeletion
	})
}
