package write

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver/admission"
	"vigil/apiserver/respond"
	"vigil/object"
)

// act does what is POSTed to a subresource, and answers with a Status (201).
func (o *op) act(ctx context.Context) (*Result, error) {
	if o.sub.Action == nil {
		return nil, respond.NoMethod()
	}
	body, err := o.decodeBody()
	if err != nil {
		return nil, err
	}
	if meta, ok := body.(metav1.Object); ok {
		if err := o.matchAction(meta); err != nil {
			return nil, err
		}
	}
	admitted, err := o.admit(ctx, admission.Create, o.sub.Name, body, nil)
	if err != nil {
		return nil, err
	}
	_, resourceVersion := precondition(body)
	_, _, err = o.run(ctx, o.key(), seenRevision(resourceVersion), func(cur *object.Version) (attempt, error) {
		if cur == nil {
			return attempt{}, apierrors.NewNotFound(o.gr(), o.r.Name)
		}
		obj, err := o.decodeCurrent(cur)
		if err != nil {
			return attempt{}, err
		}
		if err := o.sub.Action(obj, body); err != nil {
			return attempt{}, err
		}
		if err := admitted.validate(ctx, o); err != nil {
			return attempt{}, err
		}
		a := attempt{do: put, obj: obj, admitted: admitted}
		if a.stored, err = object.EncodeStored(o.k.Type, obj); err != nil {
			return attempt{}, err
		}
		if cur.EqualStored(a.stored) {
			a.do = keep
		}
		return a, nil
	})
	if err != nil {
		return nil, err
	}
	return o.resultObject(http.StatusCreated, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Code:     http.StatusCreated,
	}), nil
}

// matchAction checks that a posted body belongs to the path. Where the path names no object the body does.
func (o *op) matchAction(body metav1.Object) error {
	if err := o.matchNamespace(body); err != nil {
		return err
	}
	name := body.GetName()
	switch {
	case o.r.Name == "" && name == "":
		return apierrors.NewBadRequest("name must be provided")
	case o.r.Name == "":
		r := *o.r
		r.Name = name
		o.r = &r
	case name != o.r.Name:
		return apierrors.NewBadRequest(fmt.Sprintf("name in URL does not match name in %s object", o.sub.GVK.Kind))
	}
	return nil
}

// redirect turns a create of a kind that is not stored (bindings) into the action of that kind on the objects that
// have it (pods).
func (o *op) redirect() (*op, error) {
	if o.res.redirect == nil {
		return nil, respond.NoMethod()
	}
	to := *o
	to.k, to.sub = o.res.redirect, o.res.redirectSub
	if to.res = o.resource(to.k); to.res == nil {
		return nil, respond.NoRoute()
	}
	return &to, nil
}
