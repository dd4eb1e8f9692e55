package transcode

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// special are the types with methods of their own for JSON.
var special = map[reflect.Type]kind{
	reflect.TypeFor[metav1.Time]():          timestamp,
	reflect.TypeFor[metav1.MicroTime]():     microTime,
	reflect.TypeFor[metav1.Duration]():      duration,
	reflect.TypeFor[resource.Quantity]():    quantity,
	reflect.TypeFor[intstr.IntOrString]():   intOrString,
	reflect.TypeFor[metav1.FieldsV1]():      fieldsV1,
	reflect.TypeFor[runtime.RawExtension](): rawExtension,
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	protoMessage  = reflect.TypeFor[interface{ Unmarshal([]byte) error }]()
	typeMeta      = reflect.TypeFor[metav1.TypeMeta]()
)

// compiled remembers the plans of all types seen: most kinds share ObjectMeta and many share PodSpec.
var compiled struct {
	sync.Mutex
	plans map[reflect.Type]*Plan
}

// Compile returns the plan for the struct type t. It fails for types whose JSON cannot be told from their tags:
// those with a MarshalJSON that is not known here, maps with keys that are no strings, clashing member names.
//
// The members kind and apiVersion of an embedded TypeMeta are not part of the plan, since protobuf keeps them in the
// envelope.
func Compile(t reflect.Type) (*Plan, error) {
	compiled.Lock()
	defer compiled.Unlock()
	c := compiler{fresh: map[reflect.Type]*Plan{}}
	p, err := c.plan(t)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", t, err)
	}
	if compiled.plans == nil {
		compiled.plans = map[reflect.Type]*Plan{}
	}
	for t, p := range c.fresh {
		compiled.plans[t] = p
	}
	return p, nil
}

type compiler struct {
	fresh map[reflect.Type]*Plan // plans of this run; incomplete while their type is being compiled
}

func (c *compiler) plan(t reflect.Type) (*Plan, error) {
	if p := compiled.plans[t]; p != nil {
		return p, nil
	}
	if p := c.fresh[t]; p != nil {
		return p, nil
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is no struct", t)
	}
	p := &Plan{}
	c.fresh[t] = p
	names := map[string]bool{}
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Type == typeMeta && sf.Anonymous {
			names["kind"], names["apiVersion"] = true, true
			continue
		}
		f, skip, err := c.field(sf)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sf.Name, err)
		}
		if skip {
			continue
		}
		if f.shape != fixed {
			if err := p.assign(&f); err != nil {
				return nil, fmt.Errorf("%s: %w", sf.Name, err)
			}
		}
		p.fields = append(p.fields, f)
	}
	return p, p.checkNames(names)
}

// assign gives f a position and enters its field number.
func (p *Plan) assign(f *field) error {
	for len(p.slots) <= int(f.num) {
		p.slots = append(p.slots, slot{index: -1})
	}
	s := &p.slots[f.num]
	if s.index >= 0 {
		return fmt.Errorf("field number %d is used twice", f.num)
	}
	f.index = int16(p.proto)
	*s = slot{
		index:    f.index,
		wireType: f.value.kind.wireType(),
		repeated: f.shape == list || f.shape == mapping,
		message:  f.value.kind.isMessage(),
	}
	if s.repeated && f.shape == mapping {
		s.wireType = 2
	}
	p.proto++
	return nil
}

// checkNames fails when two members of the object have the same name: encoding/json's rules for that are not ours.
func (p *Plan) checkNames(seen map[string]bool) error {
	for _, f := range p.fields {
		if f.shape == inline {
			if err := f.value.plan.checkNames(seen); err != nil {
				return err
			}
			continue
		}
		name := strings.Trim(f.key, `,":`)
		if seen[name] {
			return fmt.Errorf("member %q twice", name)
		}
		seen[name] = true
	}
	return nil
}

// maxFieldNum bounds the size of a plan's table.
const maxFieldNum = 1 << 12

// field compiles one struct field; skip is true when it has no JSON member.
func (c *compiler) field(sf reflect.StructField) (f field, skip bool, err error) {
	name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
	if name == "-" || !sf.IsExported() && !sf.Anonymous {
		return f, true, nil
	}
	if sf.Anonymous && name == "" {
		f.shape = inline
	} else if name == "" {
		name = sf.Name
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return f, false, err
	}
	f.key, f.index = ","+string(quoted)+":", -1
	if f.omit, err = omissionOf(options, sf.Type); err != nil {
		return f, false, err
	}
	number, hasProto := protobufNumber(sf.Tag.Get("protobuf"))
	if !hasProto {
		return c.fixedField(sf, f)
	}
	if number < 1 || number > maxFieldNum {
		return f, false, fmt.Errorf("field number %d", number)
	}
	f.num = int32(number)
	if f.shape == inline {
		if sf.Type.Kind() != reflect.Struct {
			return f, false, fmt.Errorf("embedded %s", sf.Type)
		}
		f.value.kind = message
		f.value.plan, err = c.plan(sf.Type)
		return f, false, err
	}
	err = c.shape(sf.Type, &f)
	if err == nil && f.omit == zeroTime && f.value.kind != timestamp {
		err = fmt.Errorf("omitzero on %s", sf.Type)
	}
	return f, false, err
}

// fixedField compiles a member that protobuf does not have, so that it always has the zero value.
func (c *compiler) fixedField(sf reflect.StructField, f field) (field, bool, error) {
	if f.shape == inline {
		return f, false, fmt.Errorf("embedded %s has no protobuf tag", sf.Type)
	}
	zero, err := json.Marshal(reflect.Zero(sf.Type).Interface())
	if err != nil {
		return f, false, err
	}
	if f.omit == zeroTime {
		return f, true, nil
	}
	if k := sf.Type.Kind(); f.omit == empty && k != reflect.Struct && k != reflect.Array {
		return f, true, nil
	}
	f.shape, f.fixed = fixed, string(zero)
	return f, false, nil
}

// shape fills in what is around the values of type t and how they are written.
func (c *compiler) shape(t reflect.Type, f *field) (err error) {
	elem := t
	switch {
	case t.Kind() == reflect.Pointer:
		f.shape, elem = pointer, t.Elem()
	case t.Kind() == reflect.Map:
		if t.Key().Kind() != reflect.String || hasMethods(t.Key(), textMarshaler) || hasMethods(t, jsonMarshaler) {
			return fmt.Errorf("map %s", t)
		}
		f.shape, elem = mapping, t.Elem()
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !hasMethods(t, protoMessage):
		if hasMethods(t, jsonMarshaler) {
			return fmt.Errorf("%s has MarshalJSON", t)
		}
		f.shape, elem = list, t.Elem()
	}
	f.value, err = c.value(elem)
	if err == nil && f.value.kind == stringList && f.shape != mapping {
		return fmt.Errorf("%s outside a map", t) // nil here, empty there: not seen yet
	}
	return err
}

func (c *compiler) value(t reflect.Type) (value, error) {
	if k, ok := special[t]; ok {
		return value{kind: k}, nil
	}
	if hasMethods(t, jsonMarshaler) || hasMethods(t, textMarshaler) {
		return value{}, fmt.Errorf("%s has its own JSON", t)
	}
	switch t.Kind() {
	case reflect.String:
		return value{kind: text}, nil
	case reflect.Bool:
		return value{kind: boolean}, nil
	case reflect.Int32:
		return value{kind: int32s}, nil
	case reflect.Int64, reflect.Int:
		return value{kind: int64s}, nil
	case reflect.Uint64:
		return value{kind: uint64s}, nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return value{kind: base64Bytes}, nil
		}
		if t.Elem().Kind() == reflect.String && hasMethods(t, protoMessage) && !hasMethods(t.Elem(), textMarshaler) {
			return value{kind: stringList}, nil
		}
	case reflect.Struct:
		p, err := c.plan(t)
		return value{kind: message, plan: p}, err
	}
	return value{}, fmt.Errorf("type %s", t)
}
