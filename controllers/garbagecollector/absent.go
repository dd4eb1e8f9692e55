package garbagecollector

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// absentLimit bounds how many owners are remembered in a generation: a few hundred bytes each.
const absentLimit = 2000

// ownerKey is an owner as a reference names it, without the version, which says nothing about the object.
type ownerKey struct {
	group, kind, namespace, name string
	uid                          types.UID
}

// absentOwners remembers owners that are gone, so that the server is asked about the owner of a thousand pods once. A uid
// does not come back, so what is here stays true. The oldest are forgotten.
type absentOwners struct {
	mu       sync.Mutex
	now, old map[ownerKey]struct{}
}

func newAbsentOwners() *absentOwners { return &absentOwners{now: map[ownerKey]struct{}{}} }

func (a *absentOwners) add(k ownerKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.now) >= absentLimit {
		a.now, a.old = map[ownerKey]struct{}{}, a.now
	}
	a.now[k] = struct{}{}
}

func (a *absentOwners) has(k ownerKey) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.now[k]; ok {
		return true
	}
	_, ok := a.old[k]
	return ok
}
