package managed

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// node says how values of one Go type are walked where the merge schema puts them.
type node struct {
	kind   nodeKind
	fields []field      // of a struct, by name
	elem   *node        // of a map or list
	keys   []key        // of a keyed list
	scalar reflect.Kind // of a leaf: how it is compared; Invalid: in depth
	typ    reflect.Type // without pointers
}

type nodeKind uint8

const (
	leaf     nodeKind = iota // owned as a whole
	structs                  // a struct whose fields are owned one by one
	maps                     // a map whose items are
	keyed                    // a list of structs that are told apart by keys
	distinct                 // a list of distinct scalars
)

// field is a field of a struct.
type field struct {
	entry  *value.FieldCacheEntry
	index  []int  // of the struct field, through embedded structs; nil: only entry finds it
	omit   bool   // left out when it is empty, and never for another reason
	quoted string // `"f:name"`
	node   *node
}

// key is one of the fields by which the elements of a list are told apart.
type key struct {
	name  string
	entry *value.FieldCacheEntry
	unset scalar // the value of an absent one
}

// unowned are the fields of metadata that nobody ever owns.
var unowned = map[string]bool{
	"name": true, "namespace": true, "creationTimestamp": true, "selfLink": true, "uid": true, "clusterName": true,
	"generation": true, "managedFields": true, "resourceVersion": true,
}

// planner makes plans. Types may refer to themselves.
type planner struct {
	schema *schema.Schema
	made   map[planKey]*node
	failed bool
}

type planKey struct {
	typ reflect.Type
	ref string
}

// newPlan makes the plan of an object's type, without the top-level fields that are skipped. It is nil when there is
// something in the type that a plan does not cover.
func newPlan(empty runtime.Object, v *typed.TypedValue, skip []string) *node {
	p := &planner{schema: v.Schema(), made: map[planKey]*node{}}
	whole := p.node(reflect.TypeOf(empty).Elem(), v.TypeRef())
	if p.failed || whole.kind != structs {
		return nil
	}
	root := *whole
	root.fields = nil
	for _, f := range whole.fields {
		name := f.entry.JsonName
		if name == "apiVersion" || name == "kind" || contains(skip, name) {
			continue
		}
		if name == "metadata" {
			metadata := *f.node
			metadata.fields = nil
			for _, inner := range f.node.fields {
				if !unowned[inner.entry.JsonName] {
					metadata.fields = append(metadata.fields, inner)
				}
			}
			f.node = &metadata
		}
		root.fields = append(root.fields, f)
	}
	return &root
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

// node plans a type that the schema describes by ref.
func (p *planner) node(t reflect.Type, ref schema.TypeRef) *node {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	id := planKey{typ: t}
	if ref.NamedType != nil {
		id.ref = *ref.NamedType
		if ref.ElementRelationship != nil {
			id.ref += " " + string(*ref.ElementRelationship)
		}
		if n := p.made[id]; n != nil {
			return n
		}
	}
	n := &node{typ: t}
	if id.ref != "" {
		p.made[id] = n
	}
	atom, ok := p.schema.Resolve(ref)
	if !ok {
		p.failed = true
		return n
	}
	p.fill(n, t, atom)
	return n
}

func (p *planner) fill(n *node, t reflect.Type, atom schema.Atom) {
	own := value.TypeReflectEntryOf(t).CanConvertToUnstructured() || value.TypeReflectEntryOf(reflect.PointerTo(t)).CanConvertToUnstructured()
	if isLeaf(atom) {
		if !own {
			n.scalar = comparable(t)
		}
		return
	}
	switch {
	case own:
		p.failed = true
	case t.Kind() == reflect.Struct && atom.Map != nil && atom.Scalar == nil && atom.List == nil:
		n.kind = structs
		p.fields(n, t, atom.Map)
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && atom.Map != nil && atom.Scalar == nil && atom.List == nil && len(atom.Map.Fields) == 0:
		n.kind = maps
		n.elem = p.node(t.Elem(), atom.Map.ElementType)
	case t.Kind() == reflect.Slice && atom.List != nil && atom.Scalar == nil && atom.Map == nil:
		n.elem = p.node(t.Elem(), atom.List.ElementType)
		if len(atom.List.Keys) == 0 {
			n.kind = distinct
			p.failed = p.failed || n.elem.kind != leaf || n.elem.scalar == reflect.Invalid || t.Elem().Kind() == reflect.Pointer
			return
		}
		n.kind = keyed
		p.keys(n, atom.List)
	default:
		p.failed = true
	}
}

// isLeaf says that values are owned as a whole, whichever of the forms that are allowed they have.
func isLeaf(a schema.Atom) bool {
	return (a.Map == nil || a.Map.ElementRelationship == schema.Atomic) && (a.List == nil || a.List.ElementRelationship == schema.Atomic)
}

// comparable is the kind of a scalar type, Invalid for others.
func comparable(t reflect.Type) reflect.Kind {
	switch k := t.Kind(); k {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return k
	}
	return reflect.Invalid
}

func (p *planner) fields(n *node, t reflect.Type, m *schema.Map) {
	zero := reflect.New(t).Elem()
	for _, entry := range value.TypeReflectEntryOf(t).OrderedFields() {
		known, ok := m.FindField(entry.JsonName)
		if !ok {
			p.failed = true
			return
		}
		f := field{entry: entry, quoted: quoteField(entry.JsonName)}
		typ := entry.GetFrom(zero).Type()
		f.locate(t)
		f.node = p.node(typ, known.Type)
		n.fields = append(n.fields, f)
	}
}

func (p *planner) keys(n *node, l *schema.List) {
	atom, ok := p.schema.Resolve(l.ElementType)
	if !ok || atom.Map == nil || n.elem.typ.Kind() != reflect.Struct {
		p.failed = true
		return
	}
	zero := reflect.New(n.elem.typ).Elem()
	for _, name := range l.Keys {
		entry := value.TypeReflectEntryOf(n.elem.typ).Fields()[name]
		if entry == nil {
			p.failed = true
			return
		}
		typ := entry.GetFrom(zero).Type()
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		switch comparable(typ) {
		case reflect.Invalid, reflect.Bool, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			p.failed = true
			return
		}
		known, _ := atom.Map.FindField(name)
		unset, _ := scalarOf(reflect.ValueOf(known.Default))
		n.keys = append(n.keys, key{name: name, entry: entry, unset: unset})
	}
	sortKeys(n.keys)
}

// locate finds the one field with the name of f's entry in t or the structs embedded in it.
func (f *field) locate(t reflect.Type) {
	found := 0
	for _, direct := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(direct.Tag.Get("json"), ",")
		if name != f.entry.JsonName || !direct.IsExported() {
			continue
		}
		found++
		f.index, f.omit = direct.Index, options == "omitempty"
		for i := range direct.Index[1:] {
			if t.FieldByIndex(direct.Index[:i+1]).Type.Kind() == reflect.Pointer {
				f.index = nil
			}
		}
	}
	if found != 1 {
		f.index, f.omit = nil, false
	}
}
