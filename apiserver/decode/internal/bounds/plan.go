package bounds

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// maxMessages is how deep messages may be nested. Only schemas are messages in themselves, and those of real custom resources are
	// less than 40 deep.
	maxMessages = 100
	// maxJSON is how deep JSON may be nested inside of protobuf: as deep as in a JSON body.
	maxJSON = 10000
)

var (
	errTooDeep   = fmt.Errorf("exceeded max depth: messages are nested more than %d deep", maxMessages)
	errMalformed = errors.New("proto: malformed message")
)

// Plan says where in values of a type there is something to look at.
type Plan struct {
	root   *node
	cyclic bool
}

// node is the plan of a type inside; nil when there is nothing to look at.
type node struct {
	kind     kind
	elem     *node            // of a list, dictionary or choice
	byName   map[string]*node // of a structure, by JSON names; embedded structures are flattened
	byNumber []*node          // of a structure or choice, by protobuf's field numbers
}

type kind uint8

const (
	structure  kind = iota
	quantity        // resource.Quantity
	raw             // a message whose field 1 is JSON
	list            // a repeated field
	dictionary      // a map with strings as keys
	choice          // in JSON an elem, a list of them, or what does not matter; a structure in protobuf
)

// choices are the structures with a JSON form of their own that may hold a schema.
var choices = map[reflect.Type]bool{
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       true,
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        true,
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): true,
}

var leaves = map[reflect.Type]kind{
	reflect.TypeFor[resource.Quantity]():    quantity,
	reflect.TypeFor[runtime.RawExtension](): raw,
	reflect.TypeFor[metav1.FieldsV1]():      raw,
	reflect.TypeFor[apiextensionsv1.JSON](): raw,
}

// plans remembers the plan of each root type, a *Plan by reflect.Type.
var plans sync.Map

// Of returns the plan of obj's type, a pointer to a struct.
func Of(obj any) *Plan {
	t := reflect.TypeOf(obj)
	if p, ok := plans.Load(t); ok {
		return p.(*Plan)
	}
	p := &Plan{root: planner{}.of(t)}
	if !p.prune(p.root, map[*node]state{}) {
		p.root = nil
	}
	stored, _ := plans.LoadOrStore(t, p)
	return stored.(*Plan)
}

// Cyclic says whether values of the type can be inside values of the same type. Decoding JSON of such a type takes time that grows with
// the square of the depth, so that it is to be bounded before.
func (p *Plan) Cyclic() bool { return p.cyclic }

// planner holds the nodes made so far: types may refer to themselves.
type planner map[reflect.Type]*node

func (m planner) of(t reflect.Type) *node {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n := m[t]; n != nil {
		return n
	}
	n := &node{}
	m[t] = n
	if leaf, ok := leaves[t]; ok {
		n.kind = leaf
		return n
	}
	switch t.Kind() {
	case reflect.Slice:
		n.kind, n.elem = list, m.of(t.Elem())
	case reflect.Map:
		n.kind, n.elem = dictionary, m.of(t.Elem())
	case reflect.Struct:
		n.byName = map[string]*node{}
		m.addFields(n, t)
		if choices[t] {
			n.kind, n.elem = choice, m.of(reflect.TypeFor[apiextensionsv1.JSONSchemaProps]())
		}
	}
	return n
}

func (m planner) addFields(n *node, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		child := m.of(f.Type)
		if number := fieldNumber(f); number > 0 {
			for int(number) >= len(n.byNumber) {
				n.byNumber = append(n.byNumber, nil)
			}
			n.byNumber[number] = child
		}
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case name != "":
			n.byName[name] = child
		case f.Anonymous:
			for name, inner := range child.byName {
				n.byName[name] = inner
			}
		}
	}
}

// fieldNumber is the number in a tag like "bytes,1,opt,name=metadata"; 0 when there is none.
func fieldNumber(f reflect.StructField) int32 {
	parts := strings.SplitN(f.Tag.Get("protobuf"), ",", 3)
	if len(parts) < 2 {
		return 0
	}
	number, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return 0
	}
	return int32(number)
}

// state is what is known of a node while it is looked for what matters.
type state uint8

const (
	unseen state = iota
	open         // its insides are being looked at
	idle
	wanted
)

// prune removes what leads to nothing and reports whether anything is left of n. A type that leads to itself is left.
func (p *Plan) prune(n *node, seen map[*node]state) bool {
	switch seen[n] {
	case open:
		p.cyclic = true
		return true
	case idle, wanted:
		return seen[n] == wanted
	}
	seen[n] = open
	want := n.kind == quantity || n.kind == raw
	if n.elem != nil && p.prune(n.elem, seen) {
		want = true
	}
	for name, child := range n.byName {
		if p.prune(child, seen) {
			want = true
		} else {
			delete(n.byName, name)
		}
	}
	for number, child := range n.byNumber {
		if child != nil && p.prune(child, seen) {
			want = true
		} else {
			n.byNumber[number] = nil
		}
	}
	seen[n] = idle
	if want {
		seen[n] = wanted
	}
	return want
}
