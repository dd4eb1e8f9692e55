package write

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/apiserver/admission"
	"vigil/kinds"
)

// post has a hook answer what is POSTed to a subresource or to a kind that is not stored.
func (o *op) post(ctx context.Context, answer PostFunc) (*Result, error) {
	body, err := o.decodeBody()
	if err != nil {
		return nil, err
	}
	if o.sub != nil && o.sub.DefaultBody != nil {
		o.sub.DefaultBody(body)
	}
	if meta, ok := body.(metav1.Object); ok {
		if err := o.matchNamespace(meta); err != nil {
			return nil, err
		}
	}
	var obj kinds.Object
	if o.sub != nil {
		if obj, err = o.stored(ctx); err != nil {
			return nil, toStatus(err, o.gr(), o.r.Name, o.verb)
		}
	}
	admitted, err := o.admit(ctx, admission.Create, o.r.Subresource, body, nil)
	if err != nil {
		return nil, err
	}
	if err := o.validateBody(body); err != nil {
		return nil, err
	}
	if err := admitted.validate(ctx, o); err != nil {
		return nil, err
	}
	r := *o.r
	r.DryRun, r.Warn = o.opts.dryRun, func(text string) { o.warn.add(text) }
	out, err := answer(ctx, &r, obj, body)
	admitted.end(err == nil)
	if err != nil {
		return nil, toStatus(err, o.gr(), o.r.Name, o.verb)
	}
	return o.resultObject(http.StatusCreated, out), nil
}

// validateBody checks a posted body by the rules of its kind. There is no name in the error: such bodies have none.
func (o *op) validateBody(body runtime.Object) error {
	var errs field.ErrorList
	gvk := o.k.GVK
	switch {
	case o.sub != nil && o.sub.ValidateBody != nil:
		gvk, errs = o.sub.GVK, o.sub.ValidateBody(body)
	case o.sub == nil && o.k.Validate != nil:
		errs = o.k.Validate(body.(kinds.Object))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(gvk.GroupKind(), "", errs)
	}
	return nil
}

// stored returns a copy of the object that the path names.
func (o *op) stored(ctx context.Context) (kinds.Object, error) {
	if o.r.Name == "" {
		return nil, apierrors.NewBadRequest("name must be provided")
	}
	cur, err := o.load(ctx, o.key(), 0)
	if err != nil {
		return nil, err
	}
	if cur.v == nil {
		return nil, apierrors.NewNotFound(o.gr(), o.r.Name)
	}
	return o.decodeCurrent(cur.v)
}
