package kinds_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/kinds"
	"vigil/object"
)

func tableRow(version, kind, path string) *kinds.Kind {
	return &kinds.Kind{
		GVK: schema.GroupVersionKind{Group: "example.com", Version: version, Kind: kind}, Resource: kind + "s", Path: path,
		Type: &object.Type{},
	}
}

// TestTable_Change: a changed table shares the rows that stay, and the one before stays as it was.
func TestTable_Change(t *testing.T) {
	same := func(obj kinds.Object) (kinds.Object, error) { return obj, nil }
	view := func(of *kinds.Kind) *kinds.Kind {
		k := tableRow("v2", of.GVK.Kind, "")
		k.View = &kinds.View{Of: of.GVK, FromStored: same, ToStored: same}
		return k
	}
	a, b := tableRow("v1", "a", "a"), tableRow("v1", "b", "b")
	first := kinds.NewTable(a, b, view(a))
	c := tableRow("v1", "c", "c")
	second, err := first.Change([]*kinds.Kind{b}, []*kinds.Kind{c, view(c)})
	if err != nil {
		t.Fatal(err)
	}
	if second.ByKind(a.GVK) != a || second.ByKind(b.GVK) != nil || second.ByKind(c.GVK) != c || len(second.All()) != 4 {
		t.Errorf("second table: %v", second.All())
	}
	if first.ByKind(b.GVK) != b || first.ByKind(c.GVK) != nil || len(first.All()) != 3 {
		t.Errorf("first table after the change: %v", first.All())
	}
	for name, change := range map[string][2][]*kinds.Kind{
		"a row that is not there":    {{c}, nil},
		"a view without its row":     {{a}, nil},
		"a view of another row":      {{a}, {tableRow("v1", "a", "a")}},
		"a kind that is there":       {nil, {tableRow("v1", "b", "elsewhere")}},
		"a place that is taken":      {nil, {tableRow("v1", "d", "b")}},
		"a view of what is no row":   {nil, {view(tableRow("v1", "e", ""))}},
		"the same row once more":     {nil, {b}},
		"two rows for one new place": {nil, {tableRow("v1", "d", "d"), tableRow("v1", "e", "d")}},
	} {
		if _, err := first.Change(change[0], change[1]); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := first.Change([]*kinds.Kind{b}, []*kinds.Kind{b}); err != nil {
		t.Errorf("a row for itself: %v", err)
	}
}
