package kinds

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Table is the set of kinds a server serves. It is made once and never changed.
type Table struct {
	kinds []*Kind
	byGVR map[schema.GroupVersionResource]*Kind
	byGVK map[schema.GroupVersionKind]*Kind
}

// NewTable makes a table. It panics when two rows have the same resource or kind: that is a broken build.
func NewTable(rows ...*Kind) *Table {
	t := &Table{byGVR: map[schema.GroupVersionResource]*Kind{}, byGVK: map[schema.GroupVersionKind]*Kind{}}
	for _, k := range rows {
		gvr := k.GVK.GroupVersion().WithResource(k.Resource)
		if t.byGVR[gvr] != nil || t.byGVK[k.GVK] != nil {
			panic("kinds: two rows for " + k.GVK.String())
		}
		t.byGVR[gvr], t.byGVK[k.GVK] = k, k
		t.kinds = append(t.kinds, k)
	}
	for _, k := range rows {
		if k.View == nil {
			continue
		}
		stored := t.byGVK[k.View.Of]
		if stored == nil || stored.View != nil {
			panic("kinds: " + k.GVK.String() + " is a view of what is not there: " + k.View.Of.String())
		}
		k.completeView(stored)
	}
	slices.SortStableFunc(t.kinds, func(a, b *Kind) int {
		return cmp.Or(cmp.Compare(a.GVK.Group, b.GVK.Group), cmp.Compare(a.GVK.Version, b.GVK.Version), cmp.Compare(a.Resource, b.Resource))
	})
	return t
}

// All returns the rows ordered by group, version and resource.
func (t *Table) All() []*Kind { return t.kinds }

// ByResource returns the row of a resource, or nil.
func (t *Table) ByResource(gvr schema.GroupVersionResource) *Kind { return t.byGVR[gvr] }

// ByKind returns the row of a kind, or nil.
func (t *Table) ByKind(gvk schema.GroupVersionKind) *Kind { return t.byGVK[gvk] }
