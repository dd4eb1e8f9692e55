package object

import (
	"strconv"

	"k8s.io/apimachinery/pkg/fields"

	"vigil/internal/protobuf"
)

// The fields that every kind can be selected by.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// Field returns the value of a selectable field: metadata.name, metadata.namespace or one of the type's Fields. It
// reports false for other labels. Of a repeated leaf it returns the first element.
func (v *Version) Field(label string) (value string, ok bool) {
	switch label {
	case fieldName:
		return v.Name(), true
	case fieldNamespace:
		return v.Namespace(), true
	}
	f := v.typ.field(label)
	if f == nil {
		return "", false
	}
	return v.fieldValue(f), true
}

// FieldAt returns the value at a field that need not be one of the type's: for Get functions that look at more than
// one place.
func (v *Version) FieldAt(f *Field) string { return v.fieldValue(f) }

// FieldIs reports whether the field has the value, or, when its leaf is repeated, one of its elements has it.
func (v *Version) FieldIs(label, value string) bool {
	f := v.typ.field(label)
	if f == nil || f.Get != nil || !v.isProto() {
		got, ok := v.Field(label)
		return ok && got == value
	}
	present, match := false, false
	walkLeaves(v.message(), f.Proto, func(b []byte, leaf protobuf.Field) bool {
		present, match = true, leafText(f, b, leaf) == value
		return !match
	})
	return match || !present && f.Default == value
}

// MatchFields reports whether the selector selects the object. A field with a repeated leaf matches a value when one
// of its elements is it.
func (v *Version) MatchFields(sel fields.Selector) bool {
	if sel == nil {
		return true
	}
	for _, f := range v.typ.layout().repeated {
		if _, asked := sel.RequiresExactMatch(f.Label); asked {
			return sel.Matches(&elementView{v: v, sel: sel})
		}
	}
	return sel.Matches(v.Fields())
}

// elementView is a Version seen as fields.Fields in which a repeated leaf reads as the element that the selector asks
// for, when it is there.
type elementView struct {
	v   *Version
	sel fields.Selector
}

func (e *elementView) Has(label string) bool { return (*fieldView)(e.v).Has(label) }

func (e *elementView) Get(label string) string {
	if want, asked := e.sel.RequiresExactMatch(label); asked && e.v.FieldIs(label, want) {
		return want
	}
	return (*fieldView)(e.v).Get(label)
}

// Fields returns the object's selectable fields for a selector. Get of an unknown label is "".
func (v *Version) Fields() fields.Fields { return (*fieldView)(v) }

// fieldView is a Version seen as fields.Fields.
type fieldView Version

func (f *fieldView) Has(label string) bool {
	_, ok := (*Version)(f).Field(label)
	return ok
}

func (f *fieldView) Get(label string) string {
	value, _ := (*Version)(f).Field(label)
	return value
}

func (t *Type) field(label string) *Field {
	for i := range t.Fields {
		if t.Fields[i].Label == label {
			return &t.Fields[i]
		}
	}
	return nil
}

func (v *Version) fieldValue(f *Field) string {
	switch {
	case f.Get != nil:
		return f.Get(v)
	case !v.isProto():
		return v.jsonField(f)
	}
	value := f.Default
	walkLeaves(v.message(), f.Proto, func(b []byte, leaf protobuf.Field) bool {
		value = leafText(f, b, leaf)
		return false
	})
	return value
}

// walkLeaves calls visit for the leaves at path in message b, in order, until it returns false. It reports whether all
// were visited. Malformed parts are passed over.
func walkLeaves(b []byte, path []int32, visit func([]byte, protobuf.Field) bool) bool {
	if len(path) == 0 {
		return true
	}
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok {
			return true
		}
		i = f.End
		switch {
		case f.Num != path[0]:
		case len(path) == 1:
			if !visit(b, f) {
				return false
			}
		case f.Type == protobuf.Bytes:
			if !walkLeaves(b[f.Start:f.End], path[1:], visit) {
				return false
			}
		}
	}
	return true
}

// leafText is the text of a leaf as field selectors have it.
func leafText(f *Field, b []byte, leaf protobuf.Field) string {
	switch leaf.Type {
	case protobuf.Bytes:
		return view(b[leaf.Start:leaf.End])
	case protobuf.Varint:
		if f.Default == "false" || f.Default == "true" {
			return strconv.FormatBool(leaf.Value != 0)
		}
		return strconv.FormatInt(int64(leaf.Value), 10)
	}
	return f.Default
}
