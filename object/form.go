package object

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// Form is how etcd holds objects of a Go type that has protobuf but is stored as JSON (APIService,
// CustomResourceDefinition). In memory and on the wire they are like all others.
type Form struct {
	// ToStored turns a copy of an object, with kind and API version, into the one whose JSON is stored, if that is
	// another API version. Nil: the copy itself is stored.
	ToStored func(obj runtime.Object) (runtime.Object, error)
	// FromStored decodes stored JSON of any API version that there may be. Nil: it is the type's own.
	FromStored func(stored []byte) (runtime.Object, error)
}

// encode returns obj as it is stored.
func (f *Form) encode(t *Type, obj runtime.Object) ([]byte, error) {
	obj = obj.DeepCopyObject()
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", t.Kind, err)
	}
	accessor.SetResourceVersion("")
	accessor.SetSelfLink("")
	obj.GetObjectKind().SetGroupVersionKind(t.groupVersionKind())
	if f.ToStored != nil {
		if obj, err = f.ToStored(obj); err != nil {
			return nil, fmt.Errorf("encode %s: %w", t.Kind, err)
		}
	}
	stored, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", t.Kind, err)
	}
	return bytes.TrimSuffix(stored, []byte("\n")), nil
}

// decode reads what etcd holds.
func (f *Form) decode(t *Type, stored []byte) (runtime.Object, error) {
	if f.FromStored == nil {
		return decodeTypedJSON(t, stored)
	}
	obj, err := f.FromStored(stored)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return obj, nil
}

// storedForm is v as its type's Form stores it.
func (v *Version) storedForm() ([]byte, error) {
	obj, err := v.Decode()
	if err != nil {
		return nil, err
	}
	return v.typ.Form.encode(v.typ, obj)
}
