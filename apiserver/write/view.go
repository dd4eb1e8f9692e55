package write

import (
	"context"
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"vigil/apiserver/write/patch"
	"vigil/kinds"
	"vigil/object"
)

// updateView replaces what a view shows of an object, and answers with the view.
func (o *op) updateView(ctx context.Context) (*Result, error) {
	view, err := o.decodeBody()
	if err != nil {
		return nil, err
	}
	if err := o.matchView(view); err != nil {
		return nil, err
	}
	uid, resourceVersion := precondition(view)
	return o.answerView(o.change(ctx, changeOptions{
		tracked: true,
		atLeast: seenRevision(resourceVersion),
		next: func(old kinds.Object, _ *object.Version) (kinds.Object, error) {
			if uid != "" && uid != old.GetUID() {
				return nil, uidConflict(o.gr(), o.r.Name, view.(metav1.Object), old)
			}
			return o.changeView(old, func(runtime.Object) (runtime.Object, error) { return view.DeepCopyObject(), nil }, false)
		},
	}))
}

// patchView patches what a view shows of an object, and answers with the view.
func (o *op) patchView(ctx context.Context, p *patch.Patch) (*Result, error) {
	return o.answerView(o.change(ctx, changeOptions{
		tracked: true,
		next: func(old kinds.Object, _ *object.Version) (kinds.Object, error) {
			return o.changeView(old, func(current runtime.Object) (runtime.Object, error) {
				view := o.sub.NewView()
				warnings, err := p.Apply(patch.Source{
					Object: current,
					JSON:   func() ([]byte, error) { return json.Marshal(current) },
				}, o.sub.GVK, view)
				if err != nil {
					return nil, err
				}
				o.warn.add(warnings...)
				return view, o.matchView(view)
			}, false)
		},
	}))
}

// changeView lets change turn the view of old into the one that the client wants, and takes that into a copy of old. The
// views carry the managed fields that concern them; an applied one comes back with those.
func (o *op) changeView(old kinds.Object, change func(current runtime.Object) (runtime.Object, error), applied bool) (kinds.Object, error) {
	current, err := o.viewOf(old)
	if err != nil {
		return nil, err
	}
	before, ok := current.(kinds.Object)
	if !ok {
		view, err := change(current)
		if err != nil {
			return nil, err
		}
		return o.applyView(view, old)
	}
	var obj kinds.Object
	var fields []metav1.ManagedFieldsEntry
	err = o.trackView(old, func(entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
		before.SetManagedFields(entries)
		view, err := change(current)
		if err != nil {
			return nil, err
		}
		if after, ok := view.(kinds.Object); ok {
			if !applied {
				o.track(after, before)
			}
			fields = after.GetManagedFields()
		}
		obj, err = o.applyView(view, old)
		return fields, err
	}, &fields)
	if err != nil {
		return nil, err
	}
	obj.SetManagedFields(fields)
	return obj, nil
}

// applyView takes a changed view into a copy of old. The view's resource version becomes the copy's.
func (o *op) applyView(view runtime.Object, old kinds.Object) (kinds.Object, error) {
	obj := old.DeepCopyObject().(kinds.Object)
	if errs := o.sub.Apply(obj, view); len(errs) > 0 {
		return nil, apierrors.NewInvalid(o.sub.GVK.GroupKind(), o.r.Name, errs)
	}
	_, resourceVersion := precondition(view)
	obj.SetResourceVersion(resourceVersion)
	return obj, nil
}

// viewOf renders the view of an object.
func (o *op) viewOf(obj kinds.Object) (runtime.Object, error) {
	view, err := o.sub.View(obj)
	if err != nil {
		return nil, err
	}
	view.GetObjectKind().SetGroupVersionKind(o.sub.GVK)
	return view, nil
}

// answerView makes a Result of what change returns.
func (o *op) answerView(_ *attempt, v *object.Version, err error) (*Result, error) {
	if err != nil {
		return nil, err
	}
	obj, err := o.decodeCurrent(v)
	if err != nil {
		return nil, toStatus(err, o.gr(), o.r.Name, o.verb)
	}
	view, err := o.viewOf(obj)
	if err != nil {
		return nil, toStatus(err, o.gr(), o.r.Name, o.verb)
	}
	return o.resultObject(http.StatusOK, view), nil
}

// matchView checks that a view belongs to the path.
func (o *op) matchView(view runtime.Object) error {
	meta, ok := view.(metav1.Object)
	if !ok {
		return nil
	}
	if err := o.matchNamespace(meta); err != nil {
		return err
	}
	return o.matchName(meta)
}

// precondition is what the metadata of a body demands of the object that it is for.
func precondition(body runtime.Object) (uid types.UID, resourceVersion string) {
	if meta, ok := body.(metav1.Object); ok {
		return meta.GetUID(), meta.GetResourceVersion()
	}
	return "", ""
}
