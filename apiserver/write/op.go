package write

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/decode"
	"vigil/apiserver/respond"
	"vigil/kinds"
	"vigil/object"
)

// op is one write on its way. It belongs to one goroutine.
type op struct {
	*Writer
	r    *Request
	res  *Resource // of k
	k    *kinds.Kind
	sub  *kinds.Subresource // nil on the main resource
	verb string             // create, update, patch, delete: for errors about time
	opts options
	warn warnings
}

// begin finds out what a request is about.
func (w *Writer) begin(r *Request, verb string) (*op, error) {
	o := &op{Writer: w, r: r, res: r.Resource, k: r.Kind, verb: verb}
	if o.res == nil {
		if o.res = w.resource(r.Kind); o.res == nil {
			return nil, respond.NoRoute()
		}
	}
	if r.Subresource != "" {
		if o.sub = r.Kind.Subresource(r.Subresource); o.sub == nil {
			return nil, apierrors.NewNotFound(o.gr(), r.Name)
		}
	}
	if !o.allowed(verb) {
		return nil, respond.NoMethod()
	}
	return o, nil
}

// allowed says whether the resource or subresource has a verb.
func (o *op) allowed(verb string) bool {
	verbs := o.k.Verbs
	if o.sub != nil {
		verbs = o.sub.Verbs
	} else if verbs == nil {
		verbs = kinds.AllVerbs
	}
	return slices.Contains(verbs, verb)
}

// part says that the request is for a part of the object itself, like its status.
func (o *op) part() bool { return o.sub != nil && o.sub.NewView == nil }

// view says that the request is for a view of the object, like its scale.
func (o *op) view() bool { return o.sub != nil && o.sub.View != nil }

func (o *op) gr() schema.GroupResource { return o.k.GroupResource() }

func (o *op) key() string { return o.Writer.key(o.k, o.r.Namespace, o.r.Name) }

// bodyKind is the kind of the body and an empty object of it: the resource's own, or the subresource's view.
func (o *op) bodyKind() (schema.GroupVersionKind, runtime.Object) {
	if o.sub != nil && o.sub.NewView != nil {
		return o.sub.GVK, o.sub.NewView()
	}
	return o.k.GVK, o.k.New()
}

// decodeBody decodes the body and fills in defaults. Warnings are collected.
func (o *op) decodeBody() (runtime.Object, error) {
	format, err := decode.FormatOf(o.r.ContentType)
	if err != nil {
		return nil, err
	}
	gvk, obj := o.bodyKind()
	warnings, err := decode.Into(o.r.Body, format, o.opts.validation, gvk, obj)
	if err != nil {
		return nil, err
	}
	o.warn.add(warnings...)
	o.setDefaults(obj)
	return obj, nil
}

// setDefaults fills in the defaults of the resource's own kind; views have none.
func (o *op) setDefaults(obj runtime.Object) {
	if o.k.Default == nil {
		return
	}
	if own, ok := obj.(kinds.Object); ok && (o.sub == nil || o.part()) {
		o.k.Default(own)
	}
}

// decodeCurrent returns a fresh typed copy of a stored object, with defaults. Not even an imported object is without
// the defaults of fields that came later.
func (o *op) decodeCurrent(v *object.Version) (kinds.Object, error) {
	v, err := v.As(o.k.Type)
	if err != nil {
		return nil, err
	}
	decoded, err := v.Decode()
	if err != nil {
		return nil, err
	}
	obj, ok := decoded.(kinds.Object)
	if !ok {
		return nil, fmt.Errorf("decode %s: %T has no metadata", v.Key(), decoded)
	}
	if o.k.Default != nil {
		o.k.Default(obj)
	}
	return obj, nil
}

// json returns a stored object as JSON of the request's kind.
func (o *op) json(v *object.Version) ([]byte, error) {
	v, err := v.As(o.k.Type)
	if err != nil {
		return nil, err
	}
	return v.JSON()
}

// hook calls the Check and Prepare hooks of the resource, if there are any. The functions returned are never nil.
func (o *op) hook(ctx context.Context, obj, old kinds.Object) (commit, rollback func(), err error) {
	nothing := func() {}
	h, ok := o.hooks[o.gr()]
	if ok && h.Check != nil {
		if err := h.Check(ctx, o.r, obj, old); err != nil {
			return nothing, nothing, err
		}
	}
	if !ok || h.Prepare == nil {
		return nothing, nothing, nil
	}
	if commit, rollback, err = h.Prepare(ctx, obj, old); err != nil {
		return nothing, nothing, err
	}
	if commit == nil {
		commit = nothing
	}
	if rollback == nil {
		rollback = nothing
	}
	return commit, rollback, nil
}

func (o *op) deleted(ctx context.Context, obj kinds.Object) {
	if h, ok := o.hooks[o.gr()]; ok && h.Deleted != nil {
		h.Deleted(ctx, obj)
	}
}

// result answers with a stored object.
func (o *op) result(code int, v *object.Version) *Result {
	return &Result{Code: code, Version: v, Warnings: o.warn.texts}
}

// resultObject answers with an object that is not stored as such.
func (o *op) resultObject(code int, obj runtime.Object) *Result {
	return &Result{Code: code, Object: obj, Warnings: o.warn.texts}
}
