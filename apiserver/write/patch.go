package write

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"vigil/apiserver/decode"
	"vigil/apiserver/write/patch"
	"vigil/kinds"
	"vigil/object"
)

// Patch changes an object, one of its parts or a view of it by a patch (200). A patch that names no resourceVersion is
// applied to whatever the object has become meanwhile.
func (w *Writer) Patch(ctx context.Context, r *Request) (*Result, error) {
	o, err := w.begin(r, "patch")
	if err != nil {
		return nil, err
	}
	if o.opts, err = writeOptions(r.RawQuery, "PatchOptions", types.PatchType(decode.MediaType(r.ContentType))); err != nil {
		return nil, err
	}
	if types.PatchType(decode.MediaType(r.ContentType)) == types.ApplyYAMLPatchType {
		return o.apply(ctx)
	}
	p, err := patch.Parse(r.ContentType, r.Body, o.opts.validation)
	if err != nil {
		return nil, err
	}
	if o.view() {
		return o.patchView(ctx, p)
	}
	action := &patchedAction{op: o}
	return o.answer(o.change(ctx, changeOptions{
		next: func(old kinds.Object, cur *object.Version) (kinds.Object, error) {
			obj := o.k.New()
			warnings, err := p.Apply(patch.Source{Object: old, JSON: func() ([]byte, error) { return o.json(cur) }}, o.k.GVK, obj)
			if err != nil {
				return nil, err
			}
			o.warn.add(warnings...)
			o.setDefaults(obj)
			if err := o.matchNamespace(obj); err != nil {
				return nil, err
			}
			if err := o.matchName(obj); err != nil {
				return nil, err
			}
			o.dropRepeatedOwners(obj)
			return obj, action.recognize(ctx, obj, old)
		},
		act: action.do,
	}))
}

// patchedAction is the action that a patch of the main resource asks for: setting the node of a pod is a binding.
type patchedAction struct {
	*op
	pending func(obj kinds.Object) error // nil when there is none
}

// recognize takes the action out of the patched object, if the row says that there is one and the user may do it.
func (p *patchedAction) recognize(ctx context.Context, obj, old kinds.Object) error {
	p.pending = nil
	if p.sub != nil || p.k.PatchAction == nil {
		return nil
	}
	name, body := p.k.PatchAction(obj, old)
	if name == "" {
		return nil
	}
	if err := p.may(ctx, "create", name); err != nil {
		return err
	}
	sub := p.k.Subresource(name)
	p.pending = func(obj kinds.Object) error { return sub.Action(obj, body) }
	return nil
}

func (p *patchedAction) do(obj kinds.Object) error {
	if p.pending == nil {
		return nil
	}
	return p.pending(obj)
}
