package managed

import (
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// walker compares two objects. What came and what changed goes into one set, what went into another.
type walker struct {
	path    []string // quoted keys from the root to where it stands
	changed changes
	removed changes
	failed  bool // there was something that is left to the library
}

// changes are the paths of a set, in order, and the set itself.
type changes struct {
	encoder
	keys []string // of all paths
	ends []int    // where each path ends in keys
	tree paths    // of the paths, once it has been asked for
}

func (c *changes) reset() {
	c.encoder.reset()
	c.keys, c.ends = c.keys[:0], c.ends[:0]
	c.tree.reset()
}

func (c *changes) add(path []string) {
	c.member(path)
	c.keys = append(c.keys, path...)
	c.ends = append(c.ends, len(c.keys))
}

// paths returns the paths as a tree. Nothing is added afterwards.
func (c *changes) paths() *paths {
	if c.tree.empty() {
		start := 0
		for _, end := range c.ends {
			c.tree.add(c.keys[start:end])
			start = end
		}
	}
	return &c.tree
}

// big says that so much was added once that the room should not be kept.
func (c *changes) big() bool { return cap(c.buf) > 64<<10 || cap(c.keys) > 4<<10 }

// release gives a walker back.
func (w *walker) release() {
	if !w.changed.big() && !w.removed.big() {
		walkers.Put(w)
	}
}

var walkers = sync.Pool{New: func() any { return new(walker) }}

// side is one of the two values that are compared.
type side struct {
	value reflect.Value // without pointers
	state state
}

type state uint8

const (
	absent state = iota
	null         // there, but without a value
	present
)

// sideOf is the side of a field, map item or list element that is there.
func sideOf(v reflect.Value) side {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return side{state: null}
		}
		v = v.Elem()
		if v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
			if v.IsNil() {
				return side{state: null}
			}
		}
	case reflect.Slice, reflect.Map, reflect.Interface:
		if v.IsNil() {
			return side{state: null}
		}
	}
	return side{v, present}
}

// compare compares two values at the path where the walker stands; at most one is absent.
func (w *walker) compare(n *node, l, r side, root bool) {
	if n.kind == leaf {
		w.compareLeaf(n, l, r)
		return
	}
	if !root && n.empty(l) && n.empty(r) {
		w.compareLeaf(n, l, r)
		return
	}
	switch {
	case l.state == absent:
		w.changed.add(w.path)
	case r.state == absent:
		w.removed.add(w.path)
	}
	switch n.kind {
	case structs:
		w.compareFields(n, l, r, root)
	case maps:
		w.compareMaps(n, l, r)
	default:
		w.compareLists(n, l, r)
	}
}

// empty says that there is nothing inside.
func (n *node) empty(s side) bool {
	if s.state != present {
		return true
	}
	if n.kind != structs {
		return s.value.Len() == 0
	}
	for i := range n.fields {
		if f := &n.fields[i]; !f.omitted(f.of(s.value)) {
			return false
		}
	}
	return true
}

func (f *field) of(v reflect.Value) reflect.Value {
	switch len(f.index) {
	case 0:
		return f.entry.GetFrom(v)
	case 1:
		return v.Field(f.index[0])
	default:
		return v.FieldByIndex(f.index)
	}
}

// omitted says that a value of the field is left out.
func (f *field) omitted(v reflect.Value) bool {
	if !f.omit {
		return f.entry.CanOmit(v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil()
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

func (f *field) side(parent side) side {
	if parent.state != present {
		return side{}
	}
	v := f.of(parent.value)
	if f.omitted(v) {
		return side{}
	}
	return sideOf(v)
}

func (w *walker) compareFields(n *node, l, r side, root bool) {
	for i := range n.fields {
		f := &n.fields[i]
		if l.state == present && r.state == present && identical(f, f.of(l.value), f.of(r.value)) {
			continue
		}
		ls, rs := f.side(l), f.side(r)
		if ls.state == absent && rs.state == absent {
			continue
		}
		w.path = append(w.path, f.quoted)
		// Nobody owns the metadata as a whole, and some of its fields are not looked at.
		w.compare(f.node, ls, rs, root && f.entry.JsonName == "metadata")
		w.path = w.path[:len(w.path)-1]
	}
}

// identical finds out cheaply that two values of a field are the same; it may miss that.
func identical(f *field, l, r reflect.Value) bool {
	switch f.node.scalar {
	case reflect.String:
		if l.Kind() == reflect.String {
			return l.String() == r.String()
		}
	case reflect.Bool:
		if l.Kind() == reflect.Bool {
			return l.Bool() == r.Bool()
		}
	case reflect.Int32, reflect.Int64:
		if l.CanInt() {
			return l.Int() == r.Int()
		}
	}
	switch l.Kind() {
	case reflect.Pointer, reflect.Map:
		return l.Pointer() == r.Pointer()
	case reflect.Slice:
		return l.Len() == r.Len() && l.Pointer() == r.Pointer() && l.IsNil() == r.IsNil()
	}
	return false
}

func (w *walker) compareLeaf(n *node, l, r side) {
	switch {
	case l.state == absent:
		w.changed.add(w.path)
	case r.state == absent:
		w.removed.add(w.path)
	case !n.equal(l, r):
		w.changed.add(w.path)
	}
}

// equal compares two values that are there as the JSON of both would be compared.
func (n *node) equal(l, r side) bool {
	if l.state == null && r.state == null {
		return true
	}
	if l.state == present && r.state == present {
		switch n.scalar {
		case reflect.Invalid:
			if same, ok := sameTime(l.value, r.value); ok {
				return same
			}
			if reflect.DeepEqual(l.value.Interface(), r.value.Interface()) {
				return true
			}
		case reflect.String:
			return l.value.String() == r.value.String()
		case reflect.Bool:
			return l.value.Bool() == r.value.Bool()
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			return l.value.Int() == r.value.Int()
		default:
			return l.value.Uint() == r.value.Uint()
		}
	}
	return value.Equals(l.merge(), r.merge())
}

// sameTime compares times as their JSON would be compared: to the second or microsecond. ok is false when they are no times.
func sameTime(l, r reflect.Value) (same, ok bool) {
	if !l.CanAddr() || !r.CanAddr() {
		return false, false
	}
	switch a := l.Addr().Interface().(type) {
	case *metav1.Time:
		b, ok := r.Addr().Interface().(*metav1.Time)
		return ok && a.IsZero() == b.IsZero() && a.Unix() == b.Unix(), ok
	case *metav1.MicroTime:
		b, ok := r.Addr().Interface().(*metav1.MicroTime)
		return ok && a.IsZero() == b.IsZero() && a.UnixMicro() == b.UnixMicro(), ok
	}
	return false, false
}

// merge is the value as the merge library sees it.
func (s side) merge() value.Value {
	if s.state == null {
		return value.NewValueInterface(nil)
	}
	p := s.value
	if p.CanAddr() {
		p = p.Addr()
	} else {
		p = reflect.New(s.value.Type())
		p.Elem().Set(s.value)
	}
	v, err := value.NewValueReflect(p.Interface())
	if err != nil {
		return value.NewValueInterface(nil)
	}
	return v
}

func (w *walker) compareMaps(n *node, l, r side) {
	if ls, ok := l.texts(); ok {
		if rs, ok := r.texts(); ok && n.elem.scalar == reflect.String {
			w.compareTexts(ls, rs)
			return
		}
	}
	keys := make([]string, 0, 16)
	if r.state == present {
		for it := r.value.MapRange(); it.Next(); {
			keys = append(keys, it.Key().String())
		}
	}
	if l.state == present {
		for it := l.value.MapRange(); it.Next(); {
			if r.state != present || !r.value.MapIndex(it.Key()).IsValid() {
				keys = append(keys, it.Key().String())
			}
		}
	}
	slices.Sort(keys)
	for _, name := range keys {
		ls, rs := item(l, name), item(r, name)
		if ls.state == present && rs.state == present && n.elem.kind == leaf && n.elem.equal(ls, rs) {
			continue
		}
		w.path = append(w.path, quoteField(name))
		w.compare(n.elem, ls, rs, false)
		w.path = w.path[:len(w.path)-1]
	}
}

// texts is a map of strings; an absent one is empty.
func (s side) texts() (m map[string]string, ok bool) {
	if s.state != present {
		return nil, true
	}
	m, ok = s.value.Interface().(map[string]string)
	return m, ok
}

// compareTexts is compareMaps for labels and the like.
func (w *walker) compareTexts(l, r map[string]string) {
	keys := make([]string, 0, 16)
	for key, value := range r {
		if before, ok := l[key]; !ok || before != value {
			keys = append(keys, key)
		}
	}
	for key := range l {
		if _, ok := r[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		w.path = append(w.path, quoteField(key))
		if _, ok := r[key]; ok {
			w.changed.add(w.path)
		} else {
			w.removed.add(w.path)
		}
		w.path = w.path[:len(w.path)-1]
	}
}

func item(m side, name string) side {
	if m.state != present {
		return side{}
	}
	v := m.value.MapIndex(reflect.ValueOf(name).Convert(m.value.Type().Key()))
	if !v.IsValid() {
		return side{}
	}
	return sideOf(v)
}

func (w *walker) compareLists(n *node, l, r side) {
	ls, ok := n.elements(l)
	rs, ok2 := n.elements(r)
	if !ok || !ok2 {
		w.failed = true
		return
	}
	for len(ls) > 0 || len(rs) > 0 {
		var quoted string
		if len(rs) == 0 || (len(ls) > 0 && compareElements(ls[0], rs[0]) <= 0) {
			quoted = ls[0].quoted
		} else {
			quoted = rs[0].quoted
		}
		var lr, rr []element
		lr, ls = run(ls, quoted)
		rr, rs = run(rs, quoted)
		w.path = append(w.path, quoted)
		w.compareElements(n, lr, rr)
		w.path = w.path[:len(w.path)-1]
	}
}

// run cuts off the elements at the beginning that are not told apart.
func run(list []element, quoted string) (same, rest []element) {
	i := 0
	for i < len(list) && list[i].quoted == quoted {
		i++
	}
	return list[:i], list[i:]
}

// compareElements compares the elements on either side that have the same keys: one, or by mistake several, which are owned
// as a whole.
func (w *walker) compareElements(n *node, l, r []element) {
	one := func(list []element) side {
		if len(list) == 1 {
			return side{list[0].value, present}
		}
		return side{}
	}
	switch {
	case len(l) <= 1 && len(r) <= 1:
		w.compare(n.elem, one(l), one(r), false)
	case len(l) >= 2 && len(r) >= 2:
		same := len(l) == len(r)
		for i := 0; same && i < len(l); i++ {
			same = value.Equals(side{l[i].value, present}.merge(), side{r[i].value, present}.merge())
		}
		if !same {
			w.changed.add(w.path)
		}
	default:
		w.failed = true // duplicates came or went
	}
}
