package kinds

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Table is the set of kinds a server serves. It never changes: [Table.Change] makes another one.
type Table struct {
	kinds []*Kind
	byGVR map[schema.GroupVersionResource]*Kind
	byGVK map[schema.GroupVersionKind]*Kind
}

// NewTable makes a table. It panics when two rows have the same resource or kind: that is a broken build.
func NewTable(rows ...*Kind) *Table {
	t, err := newTable(rows)
	if err != nil {
		panic("kinds: " + err.Error())
	}
	return t
}

// Change returns a table without some rows of t and with others. Both tables share the rows that stay. It fails when t does not have a row
// that is to go, when two rows would have the same resource, kind or place in the store, and when a view would be without the row that it shows.
func (t *Table) Change(remove, add []*Kind) (*Table, error) {
	for _, k := range remove {
		if t.byGVK[k.GVK] != k {
			return nil, fmt.Errorf("%s is not in the table", k.GVK)
		}
	}
	rows := slices.DeleteFunc(slices.Clone(t.kinds), func(k *Kind) bool { return slices.Contains(remove, k) })
	return newTable(append(rows, add...))
}

func newTable(rows []*Kind) (*Table, error) {
	t := &Table{
		kinds: slices.Clone(rows),
		byGVR: make(map[schema.GroupVersionResource]*Kind, len(rows)),
		byGVK: make(map[schema.GroupVersionKind]*Kind, len(rows)),
	}
	paths := make(map[string]*Kind, len(rows))
	for _, k := range rows {
		gvr := k.GVK.GroupVersion().WithResource(k.Resource)
		if t.byGVR[gvr] != nil || t.byGVK[k.GVK] != nil {
			return nil, fmt.Errorf("two rows for %s", k.GVK)
		}
		t.byGVR[gvr], t.byGVK[k.GVK] = k, k
		if k.Unstored || k.View != nil {
			continue
		}
		if other := paths[k.Path]; other != nil {
			return nil, fmt.Errorf("%s and %s are stored in the same place: %s", other.GVK, k.GVK, k.Path)
		}
		paths[k.Path] = k
	}
	for _, k := range rows {
		if k.View == nil {
			continue
		}
		stored := t.byGVK[k.View.Of]
		switch {
		case stored == nil || stored.View != nil:
			return nil, fmt.Errorf("%s is a view of what is not there: %s", k.GVK, k.View.Of)
		case k.View.stored == nil:
			k.completeView(stored)
		case k.View.stored != stored: // it has been completed, and may be in use
			return nil, fmt.Errorf("%s is a view of another row for %s", k.GVK, k.View.Of)
		}
	}
	slices.SortStableFunc(t.kinds, func(a, b *Kind) int {
		return cmp.Or(cmp.Compare(a.GVK.Group, b.GVK.Group), cmp.Compare(a.GVK.Version, b.GVK.Version), cmp.Compare(a.Resource, b.Resource))
	})
	return t, nil
}

// All returns the rows ordered by group, version and resource.
func (t *Table) All() []*Kind { return t.kinds }

// ByResource returns the row of a resource, or nil.
func (t *Table) ByResource(gvr schema.GroupVersionResource) *Kind { return t.byGVR[gvr] }

// ByKind returns the row of a kind, or nil.
func (t *Table) ByKind(gvk schema.GroupVersionKind) *Kind { return t.byGVK[gvk] }
