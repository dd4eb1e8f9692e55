package quick

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// plan says how values of one Go type are decoded.
type plan struct {
	kind   kind
	typ    reflect.Type
	elem   *plan          // of a pointer, slice or map
	fields []field        // of a struct, in the order of its fields
	byName map[string]int // into fields
}

type field struct {
	name   string
	offset uintptr // from the beginning of the outermost struct that the field's struct is embedded in
	plan   *plan
}

type kind uint8

const (
	unsupported kind = iota
	text             // string
	boolean
	integer    // signed, of any size
	unsigned   // of any size
	encoded    // []byte: base64
	pointer    // to anything
	list       // slice
	labels     // map[string]string itself
	dictionary // any other map with strings as keys
	structure
	moment      // metav1.Time
	intOrString // intstr.IntOrString
	custom      // any other with a *T that is a json.Unmarshaler
)

// maxFields is how many fields of a struct are told apart when looking for repeated ones.
const maxFields = 128

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// plans remembers the plan of each root type, a *plan by reflect.Type.
var plans sync.Map

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p, _ := plans.LoadOrStore(t, planner{}.of(t))
	return p.(*plan)
}

// planner holds the plans made so far: types may refer to themselves.
type planner map[reflect.Type]*plan

func (m planner) of(t reflect.Type) *plan {
	if p := m[t]; p != nil {
		return p
	}
	p := &plan{typ: t}
	m[t] = p
	switch at := reflect.PointerTo(t); {
	case t.Kind() == reflect.Pointer:
		p.kind, p.elem = pointer, m.of(t.Elem())
	case t == reflect.TypeFor[metav1.Time]():
		p.kind = moment
	case t == reflect.TypeFor[intstr.IntOrString]():
		p.kind = intOrString
	case at.Implements(unmarshaler):
		p.kind = custom
	case at.Implements(textUnmarshaler):
		p.kind = unsupported
	default:
		m.fill(p, t)
	}
	return p
}

func (m planner) fill(p *plan, t reflect.Type) {
	switch t.Kind() {
	case reflect.String:
		p.kind = text
	case reflect.Bool:
		p.kind = boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.kind = integer
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.kind = unsigned
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			if t.Elem() == reflect.TypeFor[byte]() {
				p.kind = encoded
			}
			return
		}
		p.kind, p.elem = list, m.of(t.Elem())
	case reflect.Map:
		if t == reflect.TypeFor[map[string]string]() {
			p.kind = labels
			return
		}
		key := t.Key()
		if key.Kind() == reflect.String && !key.Implements(textUnmarshaler) && !reflect.PointerTo(key).Implements(textUnmarshaler) {
			p.kind, p.elem = dictionary, m.of(t.Elem())
		}
	case reflect.Struct:
		p.byName = map[string]int{}
		if m.addFields(p, t, 0) && len(p.fields) <= maxFields {
			p.kind = structure
		}
	}
}

// addFields adds the fields of t, those of embedded structs among them. It reports whether each has a name of its own: who
// hides whom is left to the library.
func (m planner) addFields(p *plan, t reflect.Type, offset uintptr) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if f.Anonymous && name == "" {
			if f.Type.Kind() != reflect.Struct || !f.IsExported() || !m.addFields(p, f.Type, offset+f.Offset) {
				return false
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		if _, taken := p.byName[name]; taken || !f.IsExported() || strings.Contains(options, "string") {
			return false
		}
		p.byName[name] = len(p.fields)
		p.fields = append(p.fields, field{name, offset + f.Offset, m.of(f.Type)})
	}
	return true
}

// find returns the position of a field, -1 for an unknown one. Clients written in Go send fields in their order: the
// next one is likely to be at or shortly behind expected.
func (p *plan) find(name string, expected int) int {
	for i := expected; i < min(expected+4, len(p.fields)); i++ {
		if p.fields[i].name == name {
			return i
		}
	}
	if i, ok := p.byName[name]; ok {
		return i
	}
	return -1
}
