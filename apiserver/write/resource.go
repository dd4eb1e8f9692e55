package write

import (
	"context"
	"sync"

	"vigil/apiserver/admission"
	"vigil/apiserver/write/internal/mergeschema"
	"vigil/apiserver/write/managed"
	"vigil/kinds"
)

// Resource is a row of the table as it is written: the row, and what is derived from it. It never changes; a server makes one for each row
// that it serves, and drops it with the row.
type Resource struct {
	kind *kinds.Kind
	ResourceConfig

	trackers map[string]*managed.Tracker // of field managers, by subresource
	status   int32                       // protobuf field number of status, 0 when there is none

	// Where a create of a kind that is not stored goes: an action of another row. Nil: nowhere.
	redirect    *kinds.Kind
	redirectSub *kinds.Subresource
}

// ResourceConfig says what the writes of one resource work with.
type ResourceConfig struct {
	// Cache is that of the stored row; nil for a kind that is not stored.
	Cache Cache
	// List selects the objects that a list with the request's query shows. Needed for deletecollection only.
	List func(ctx context.Context, r *Request) (*List, error)
	// Admission has its say about every write; nil has none.
	Admission *admission.Plan
	// Wrote is told each revision that a write makes. It must not block. Nil does nothing.
	Wrote func(rev int64)
}

// NewResource derives from a row what its writes need. The table has the row, and the others that share a storage with it.
func NewResource(table *kinds.Table, k *kinds.Kind, c ResourceConfig) *Resource {
	if c.Wrote == nil {
		c.Wrote = func(int64) {}
	}
	r := &Resource{kind: k, ResourceConfig: c, trackers: newTrackers(table, k, builtinTypes)}
	if !k.Unstored {
		r.status = statusField(k)
		return r
	}
	for _, other := range table.All() {
		for i := range other.Subresources {
			if sub := &other.Subresources[i]; r.redirect == nil && sub.Action != nil && sub.GVK == k.GVK {
				r.redirect, r.redirectSub = other, sub
			}
		}
	}
	return r
}

// builtinTypes are the schemas of the kinds that client-go has. The first write makes them.
var builtinTypes = sync.OnceValue(mergeschema.Types)
