package quick

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"vigil/internal/jsonscan"
	"vigil/kinds/validate"
)

// Unmarshal decodes data into the empty struct that obj points to. It reports false when it gives up; obj is then empty again.
// data is copied.
func Unmarshal(data []byte, obj any) bool {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return false
	}
	p := planOf(v.Type().Elem())
	if p.kind != structure {
		return false
	}
	d := decoder{scanner: scanner{s: string(data)}, data: data}
	if d.space(); d.peek() != '{' || !d.value(p, v.UnsafePointer()) || !d.end() {
		v.Elem().SetZero()
		return false
	}
	return true
}

// decoder decodes one body. Its methods read a value and report whether that went well.
type decoder struct {
	scanner
	data  []byte // what s is a copy of
	depth int
}

// maxDepth is how deep values may be nested.
const maxDepth = 500

// value decodes the value that comes next into the zero value of p's type at an address.
func (d *decoder) value(p *plan, at unsafe.Pointer) bool {
	d.space()
	switch d.peek() {
	case 'n':
		return d.null(p, at)
	case '{', '[':
		d.depth++
		ok := d.depth <= maxDepth && d.present(p, at)
		d.depth--
		return ok
	}
	return d.present(p, at)
}

// present decodes a value that is not null.
func (d *decoder) present(p *plan, at unsafe.Pointer) bool {
	switch p.kind {
	case text:
		s, ok := d.text()
		*(*string)(at) = s
		return ok
	case boolean:
		b, ok := d.boolean()
		*(*bool)(at) = b
		return ok
	case integer:
		n, ok := d.integer()
		if v := reflect.NewAt(p.typ, at).Elem(); ok && !v.OverflowInt(n) {
			v.SetInt(n)
			return true
		}
		return false
	case unsigned:
		n, ok := d.integer()
		if v := reflect.NewAt(p.typ, at).Elem(); ok && n >= 0 && !v.OverflowUint(uint64(n)) {
			v.SetUint(uint64(n))
			return true
		}
		return false
	case encoded:
		return d.encoded(at)
	case pointer:
		to := reflect.New(p.elem.typ).UnsafePointer()
		*(*unsafe.Pointer)(at) = to
		return d.value(p.elem, to)
	case list:
		return d.list(p, at)
	case labels:
		return d.labels(at)
	case dictionary:
		return d.dictionary(p, at)
	case structure:
		return d.structure(p, at)
	case moment:
		return d.moment(at)
	case intOrString:
		return d.intOrString(at)
	case custom:
		return d.custom(p, at)
	default:
		return false
	}
}

// null leaves everything zero but what decodes itself.
func (d *decoder) null(p *plan, at unsafe.Pointer) bool {
	switch p.kind {
	case unsupported:
		return false
	case custom, intOrString:
		return d.custom(p, at)
	default:
		return d.literal("null")
	}
}

var quantity = reflect.TypeFor[resource.Quantity]()

// moment is what metav1.Time's own decoding makes of a string.
func (d *decoder) moment(at unsafe.Pointer) bool {
	s, ok := d.text()
	if !ok {
		return false
	}
	t, err := time.Parse(time.RFC3339, s)
	*(*metav1.Time)(at) = metav1.Time{Time: t.Local()}
	return err == nil
}

func (d *decoder) intOrString(at unsafe.Pointer) bool {
	if d.peek() != '"' {
		n, ok := d.integer()
		*(*intstr.IntOrString)(at) = intstr.FromInt32(int32(n))
		return ok && n == int64(int32(n))
	}
	s, ok := d.text()
	*(*intstr.IntOrString)(at) = intstr.FromString(s)
	return ok
}

func (d *decoder) custom(p *plan, at unsafe.Pointer) bool {
	begin := d.i
	end, _, ok := jsonscan.Value(d.data, begin)
	if !ok {
		return false
	}
	d.i = end
	if p.typ == quantity && validate.QuantityText(strings.Trim(d.s[begin:d.i], `"`)) != nil {
		return false
	}
	into := reflect.NewAt(p.typ, at).Interface().(json.Unmarshaler)
	return into.UnmarshalJSON(d.data[begin:d.i:d.i]) == nil
}

func (d *decoder) encoded(at unsafe.Pointer) bool {
	s, ok := d.text()
	if !ok {
		return false
	}
	b, err := base64.StdEncoding.DecodeString(s)
	*(*[]byte)(at) = b
	return err == nil
}

func (d *decoder) list(p *plan, at unsafe.Pointer) bool {
	if !d.skip('[') {
		return false
	}
	v := reflect.NewAt(p.typ, at).Elem()
	if d.space(); d.skip(']') {
		v.Set(reflect.MakeSlice(p.typ, 0, 0))
		return true
	}
	for n := 0; ; n++ {
		if n == v.Cap() {
			v.Grow(max(1, n))
		}
		v.SetLen(n + 1)
		if !d.value(p.elem, unsafe.Add(v.UnsafePointer(), uintptr(n)*p.elem.typ.Size())) {
			return false
		}
		if more, ok := d.more(']'); !more {
			return ok
		}
	}
}

func (d *decoder) labels(at unsafe.Pointer) bool {
	m := map[string]string{}
	*(*map[string]string)(at) = m
	return d.members(func(key string) bool {
		d.space()
		if d.peek() == 'n' {
			m[key] = ""
			return d.literal("null")
		}
		value, ok := d.text()
		m[key] = value
		return ok
	}, func() int { return len(m) })
}

func (d *decoder) dictionary(p *plan, at unsafe.Pointer) bool {
	m := reflect.MakeMap(p.typ)
	reflect.NewAt(p.typ, at).Elem().Set(m)
	key, elem := reflect.New(p.typ.Key()).Elem(), reflect.New(p.elem.typ).Elem()
	return d.members(func(name string) bool {
		key.SetString(name)
		elem.SetZero()
		if !d.value(p.elem, elem.Addr().UnsafePointer()) {
			return false
		}
		m.SetMapIndex(key, elem)
		return true
	}, m.Len)
}

// members reads an object into a map: value reads the value of a key and puts it in; size is how many the map then has,
// by which a repeated key shows.
func (d *decoder) members(value func(key string) bool, size func() int) bool {
	if !d.skip('{') {
		return false
	}
	if d.space(); d.skip('}') {
		return true
	}
	for n := 1; ; n++ {
		d.space()
		key, ok := d.text()
		if d.space(); !ok || !d.skip(':') || !value(key) || size() != n {
			return false
		}
		if more, ok := d.more('}'); !more {
			return ok
		}
	}
}

func (d *decoder) structure(p *plan, at unsafe.Pointer) bool {
	if !d.skip('{') {
		return false
	}
	if d.space(); d.skip('}') {
		return true
	}
	var seen [maxFields / 64]uint64
	for expected := 0; ; {
		d.space()
		name, ok := d.text()
		if d.space(); !ok || !d.skip(':') {
			return false
		}
		i := p.find(name, expected)
		if i < 0 || seen[i/64]&(1<<(i%64)) != 0 {
			return false
		}
		seen[i/64] |= 1 << (i % 64)
		expected = i + 1
		if f := &p.fields[i]; !d.value(f.plan, unsafe.Add(at, f.offset)) {
			return false
		}
		if more, ok := d.more('}'); !more {
			return ok
		}
	}
}
