package garbagecollector

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestDecide(t *testing.T) {
	const (
		background = metav1.DeletePropagationBackground
		foreground = metav1.DeletePropagationForeground
		orphan     = metav1.DeletePropagationOrphan
	)
	tests := []struct {
		name                 string
		owners               []state
		finalizers           []string
		dependents, circular bool
		want                 verdict
	}{
		{name: "no owners"},
		{name: "one owner", owners: []state{solid}},
		{name: "two owners", owners: []state{solid, solid}},
		{name: "the owner is gone", owners: []state{missing}, want: verdict{remove: true, policy: background}},
		{name: "all owners are gone", owners: []state{missing, missing}, want: verdict{remove: true, policy: background}},
		{name: "one of two is gone", owners: []state{missing, solid}, want: verdict{drop: []types.UID{"0"}}},
		{name: "one of three goes, one is gone", owners: []state{going, solid, missing}, want: verdict{drop: []types.UID{"0", "2"}}},
		{name: "the owner goes", owners: []state{going}, want: verdict{remove: true, policy: background}},
		{name: "the owner goes and there are dependents", owners: []state{going}, dependents: true, want: verdict{remove: true, policy: foreground}},
		{name: "one is gone, one goes, dependents", owners: []state{missing, going}, dependents: true, want: verdict{remove: true, policy: foreground}},
		{name: "the owner goes, a dependent goes, too", owners: []state{going}, dependents: true, circular: true, want: verdict{remove: true, policy: foreground, unblocked: true}},
		{name: "the owner is gone and there are dependents", owners: []state{missing}, dependents: true, want: verdict{remove: true, policy: background}},
		{name: "asked to orphan", owners: []state{missing}, finalizers: []string{"x/y", metav1.FinalizerOrphanDependents}, want: verdict{remove: true, policy: orphan}},
		{name: "asked to wait", owners: []state{missing}, finalizers: []string{metav1.FinalizerDeleteDependents}, want: verdict{remove: true, policy: foreground}},
		{name: "asked to orphan, but the owner waits", owners: []state{going}, dependents: true, finalizers: []string{metav1.FinalizerOrphanDependents}, want: verdict{remove: true, policy: foreground}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			object := &dependentObject{ObjectMeta: metav1.ObjectMeta{Finalizers: tt.finalizers}}
			for i := range tt.owners {
				object.OwnerReferences = append(object.OwnerReferences, ownerReference{UID: types.UID(rune('0' + i))})
			}
			got := decide(object, tt.owners, tt.dependents, tt.circular)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAbsentOwners_ForgetsTheOldest(t *testing.T) {
	a := newAbsentOwners()
	key := func(i int) ownerKey { return ownerKey{uid: types.UID(rune(i + 1))} }
	for i := range 2*absentLimit + 1 {
		a.add(key(i))
	}
	if a.has(key(0)) {
		t.Error("the first of 4001 is still known: the memory is not bounded")
	}
	if !a.has(key(absentLimit)) || !a.has(key(2*absentLimit)) {
		t.Error("an owner of the last 2001 was forgotten")
	}
}
