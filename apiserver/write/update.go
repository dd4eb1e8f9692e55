package write

import (
	"context"

	"vigil/kinds"
	"vigil/object"
)

// Update replaces an object, or one of its parts (status), or what a view of it shows (scale): 200, or 201 when the
// kind lets a PUT create.
func (w *Writer) Update(ctx context.Context, r *Request) (*Result, error) {
	o, err := w.begin(r, "update")
	if err != nil {
		return nil, err
	}
	if o.opts, err = writeOptions(r.RawQuery, "UpdateOptions", ""); err != nil {
		return nil, err
	}
	if o.view() {
		return o.updateView(ctx)
	}
	obj, err := o.decodeUpdate()
	if err != nil {
		return nil, err
	}
	uid := obj.GetUID()
	return o.answer(o.change(ctx, changeOptions{
		atLeast:     seenRevision(obj.GetResourceVersion()),
		allowCreate: o.sub == nil && o.k.AllowCreateOnUpdate,
		next: func(old kinds.Object, _ *object.Version) (kinds.Object, error) {
			if obj == nil { // an attempt before has changed it
				if obj, err = o.decodeUpdate(); err != nil {
					return nil, err
				}
			}
			next := obj
			obj = nil
			if uid != "" && (old == nil || uid != old.GetUID()) {
				return nil, uidConflict(o.gr(), o.r.Name, next, old)
			}
			return next, nil
		},
	}))
}

// decodeUpdate decodes the body of a PUT and checks that it belongs to the path.
func (o *op) decodeUpdate() (kinds.Object, error) {
	body, err := o.decodeBody()
	if err != nil {
		return nil, err
	}
	obj := body.(kinds.Object)
	if err := o.matchNamespace(obj); err != nil {
		return nil, err
	}
	if err := o.matchName(obj); err != nil {
		return nil, err
	}
	o.dropRepeatedOwners(obj)
	return obj, nil
}
