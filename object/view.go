package object

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"
)

// View makes a type another way to see the objects of a stored type: events.k8s.io/v1 Event of v1 Event. Objects of such a
// type are never in etcd nor in a cache; [Version.As] makes them of what is.
type View struct {
	Stored *Type // no view itself
	// FromStored and ToStored convert, without loss. Both return new objects, which may share parts with the argument.
	FromStored, ToStored func(runtime.Object) (runtime.Object, error)
}

// base is the type of what etcd holds.
func (t *Type) base() *Type {
	if t.View != nil {
		return t.View.Stored
	}
	return t
}

// viewed is a version converted to another type.
type viewed struct {
	typ *Type
	v   *Version
	err error
}

// As returns the version as one of type t, which must be the version's own type or a view of it. It is made on first
// demand and kept.
func (v *Version) As(t *Type) (*Version, error) {
	if v.typ == t {
		return v, nil
	}
	e := v.encodings()
	if made := e.viewed.Load(); made != nil && made.typ == t {
		return made.v, made.err
	}
	made := &viewed{typ: t}
	made.v, made.err = v.convert(t)
	e.viewed.Store(made)
	return made.v, made.err
}

func (v *Version) convert(t *Type) (*Version, error) {
	if t.View == nil || t.View.Stored != v.typ {
		return nil, fmt.Errorf("show %s at revision %d as %s %s: not a view of %s %s", v.key, v.rev, t.APIVersion, t.Kind, v.typ.APIVersion, v.typ.Kind)
	}
	obj, err := v.decode()
	if err == nil {
		if obj, err = t.View.FromStored(obj); err == nil {
			return FromObject(t, v.key, v.rev, obj)
		}
	}
	return nil, fmt.Errorf("show %s at revision %d as %s %s: %w", v.key, v.rev, t.APIVersion, t.Kind, err)
}

// sizeBytes is what a conversion holds.
func (m *viewed) sizeBytes() int {
	if m == nil || m.v == nil {
		return 0
	}
	return int(unsafe.Sizeof(*m)) + m.v.SizeBytes()
}

// viewedForm is where a version keeps itself as another type. There is one place: no type has two views that are read.
type viewedForm = atomic.Pointer[viewed]
