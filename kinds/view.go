package kinds

import (
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/object"
)

// View says that the objects of a row are those of another row, seen in another version or group: reads convert what
// the cache has (and keep it with the cached version), writes convert to what is stored. Such a row has names, New,
// NewList, Type, Default and whatever differs from the stored row; NewTable takes Path and all hooks, columns and
// subresources that it leaves nil from there, with objects converted on the way.
type View struct {
	// Of is the kind of the stored row. It must be in the same table and no view itself.
	Of schema.GroupVersionKind
	// FromStored and ToStored convert, without loss: what goes there and back is the same. Both return new objects with the
	// argument's ObjectMeta, which may share parts with it, and do not change it.
	FromStored, ToStored func(obj Object) (Object, error)
	// Fields gives the view's selectable fields, by their labels, the stored row's label. Nil: the same labels.
	Fields map[string]string

	stored *Kind // set by NewTable
}

// Stored returns the row whose objects are stored: that of a view, else k itself.
func (k *Kind) Stored() *Kind {
	if k.View != nil {
		return k.View.stored
	}
	return k
}

// StoredField returns what the stored row calls a selectable field of k; false when there is no such field.
func (k *Kind) StoredField(label string) (string, bool) {
	switch label {
	case "metadata.name":
		return label, true
	case "metadata.namespace":
		return label, !k.NoNamespaceField
	}
	if k.View != nil && k.View.Fields != nil {
		stored, ok := k.View.Fields[label]
		return stored, ok
	}
	fields := k.Stored().Type.Fields
	for i := range fields {
		if fields[i].Label == label {
			return label, true
		}
	}
	return "", false
}

// FieldError is the error about a field label that StoredField does not find.
func (k *Kind) FieldError(label string) error {
	if k.UnknownField != "" {
		return fmt.Errorf(k.UnknownField, label)
	}
	return fmt.Errorf("%q is not a known field selector: only %q, %q", label, "metadata.name", "metadata.namespace")
}

// completeView takes from the stored row what the view does not say.
func (k *Kind) completeView(stored *Kind) {
	v := k.View
	v.stored = stored
	k.Path = stored.Path
	k.Type.View = &object.View{Stored: stored.Type, FromStored: untyped(v.FromStored), ToStored: untyped(v.ToStored)}

	if k.UnknownField == "" {
		k.UnknownField, k.NoNamespaceField = stored.UnknownField, stored.NoNamespaceField
	}
	k.HasGeneration, k.SameMetadata, k.TTL = stored.HasGeneration, stored.SameMetadata, through(v, k.TTL, stored.TTL)
	k.AllowCreateOnUpdate, k.UnconditionalUpdate = stored.AllowCreateOnUpdate, stored.UnconditionalUpdate
	k.ReturnsDeleted, k.NoDeleteCollection, k.Dependents = stored.ReturnsDeleted, stored.NoDeleteCollection, stored.Dependents
	k.SpecFinalizers = through(v, k.SpecFinalizers, stored.SpecFinalizers)
	k.Validate = through(v, k.Validate, stored.Validate)
	k.ValidateUpdate = through2(v, k.ValidateUpdate, stored.ValidateUpdate)
	k.Warnings = through2(v, k.Warnings, stored.Warnings)
	k.RowConditions = through(v, k.RowConditions, stored.RowConditions)
	if k.ValidateName == nil {
		k.ValidateName = stored.ValidateName
	}
	if drop := stored.Drop; k.Drop == nil && drop != nil {
		k.Drop = func(obj, old Object) (warnings []string) {
			var before Object
			if old != nil {
				before = v.toStored(old)
			}
			v.change(obj, func(s Object) { warnings = drop(s, before) })
			return warnings
		}
	}
	if prepare := stored.PrepareCreate; k.PrepareCreate == nil && prepare != nil {
		k.PrepareCreate = func(obj Object) { v.change(obj, prepare) }
	}
	k.PrepareUpdate = v.prepare(k.PrepareUpdate, stored.PrepareUpdate)
	if graceful := stored.Graceful; k.Graceful == nil && graceful != nil {
		k.Graceful = func(obj Object, opts *metav1.DeleteOptions) (seconds int64, ok bool) {
			v.change(obj, func(s Object) { seconds, ok = graceful(s, opts) })
			return seconds, ok
		}
	}
	if terminate := stored.Terminate; k.Terminate == nil && terminate != nil {
		k.Terminate = func(obj Object) { v.change(obj, terminate) }
	}
	if row := stored.Row; k.Row == nil && row != nil {
		k.Columns = stored.Columns
		k.Row = func(obj Object, now time.Time) []any { return row(v.toStored(obj), now) }
	}
	if k.Subresources == nil {
		for _, s := range stored.Subresources {
			k.Subresources = append(k.Subresources, v.subresource(s))
		}
	}
}

// subresource is a subresource of the stored row over the view's objects.
func (v *View) subresource(s Subresource) Subresource {
	out := s
	out.Prepare, out.Validate, out.View = v.prepare(nil, s.Prepare), through2(v, nil, s.Validate), nil
	if s.View != nil {
		out.View = func(obj Object) (runtime.Object, error) { return s.View(v.toStored(obj)) }
	}
	if s.Apply != nil {
		out.Apply = func(obj Object, view runtime.Object) (errs field.ErrorList) {
			v.change(obj, func(stored Object) { errs = s.Apply(stored, view) })
			return errs
		}
	}
	if s.Action != nil {
		out.Action = func(obj Object, body runtime.Object) (err error) {
			v.change(obj, func(stored Object) { err = s.Action(stored, body) })
			return err
		}
	}
	return out
}

// prepare returns own if it is there, else stored over the view's objects.
func (v *View) prepare(own, stored func(obj, old Object)) func(obj, old Object) {
	if own != nil || stored == nil {
		return own
	}
	return func(obj, old Object) {
		before := v.toStored(old)
		v.change(obj, func(s Object) { stored(s, before) })
	}
}

// through returns own if it is there, else stored over the view's objects.
func through[R any](v *View, own, stored func(obj Object) R) func(obj Object) R {
	if own != nil || stored == nil {
		return own
	}
	return func(obj Object) R { return stored(v.toStored(obj)) }
}

// through2 does the same for a pair of objects, of which the second may be nil.
func through2[R any](v *View, own, stored func(obj, old Object) R) func(obj, old Object) R {
	if own != nil || stored == nil {
		return own
	}
	return func(obj, old Object) R {
		if old == nil {
			return stored(v.toStored(obj), nil)
		}
		return stored(v.toStored(obj), v.toStored(old))
	}
}

// change lets f change the stored form of obj, and obj with it.
func (v *View) change(obj Object, f func(stored Object)) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	stored := v.toStored(obj.DeepCopyObject().(Object)) // a copy: f may change what the conversion shares
	f(stored)
	changed, err := v.FromStored(stored)
	if err != nil {
		panic(fmt.Sprintf("kinds: convert a changed %T back: %v", obj, err))
	}
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(changed).Elem())
	obj.GetObjectKind().SetGroupVersionKind(gvk)
}

// toStored converts for a hook. Conversions fail on nothing that decodes.
func (v *View) toStored(obj Object) Object {
	stored, err := v.ToStored(obj)
	if err != nil {
		panic(fmt.Sprintf("kinds: convert a %T to the stored version: %v", obj, err))
	}
	return stored
}

func untyped(convert func(Object) (Object, error)) func(runtime.Object) (runtime.Object, error) {
	return func(in runtime.Object) (runtime.Object, error) {
		obj, ok := in.(Object)
		if !ok {
			return nil, fmt.Errorf("convert %T: it has no metadata", in)
		}
		return convert(obj)
	}
}
