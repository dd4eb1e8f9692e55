package write

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"vigil/apiserver/decode"
	"vigil/kinds"
	"vigil/object"
)

// apply is a PATCH with what its manager wants the object to be (server-side apply): fields that it no longer names go, if
// nobody else owns them; fields that others own are a Conflict unless it is forced. A missing object is created (201).
func (o *op) apply(ctx context.Context) (*Result, error) {
	body, err := o.appliedBody()
	if err != nil {
		return nil, err
	}
	if o.view() {
		return o.applyToView(ctx, body)
	}
	return o.answer(o.change(ctx, changeOptions{
		allowCreate: o.sub == nil,
		tracked:     true,
		next: func(old kinds.Object, _ *object.Version) (kinds.Object, error) {
			live := o.tracker().Empty()
			if old != nil {
				live = old.DeepCopyObject().(kinds.Object)
				live.GetObjectKind().SetGroupVersionKind(o.k.GVK)
			}
			obj, err := o.applyTo(live, body)
			if err != nil {
				return nil, err
			}
			if err := o.matchNamespace(obj); err != nil {
				return nil, err
			}
			if err := o.matchName(obj); err != nil {
				return nil, err
			}
			if uid := obj.GetUID(); old == nil && uid != "" {
				return nil, apierrors.NewConflict(o.gr(), o.r.Name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
			}
			o.dropRepeatedOwners(obj)
			return obj, nil
		},
	}))
}

// appliedBody reads the body, YAML or JSON, into unstructured content. Duplicate keys are a warning or, under Strict
// validation, an error; unknown fields are errors of the merge.
func (o *op) appliedBody() (map[string]any, error) {
	data, err := yaml.YAMLToJSON(o.r.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	var body map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &body); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	if body == nil {
		body = map[string]any{}
	}
	_, obj := o.bodyKind()
	if err := decode.CheckFields(body, obj); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	if o.opts.validation == decode.Ignore {
		return body, nil
	}
	if _, err := yaml.YAMLToJSONStrict(o.r.Body); err != nil {
		if o.opts.validation == decode.Strict {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", err))
		}
		o.warn.add(decode.Warnings([]error{err})...)
	}
	return body, nil
}

// applyTo merges a body into live. The body is not changed.
func (o *op) applyTo(live kinds.Object, body map[string]any) (kinds.Object, error) {
	obj, err := o.tracker().Apply(live, runtime.DeepCopyJSON(body), o.opts.fieldManager, o.opts.force)
	if err != nil {
		return nil, notApplied(err)
	}
	return obj, nil
}

// notApplied is the Status of an apply that failed. Upstream knows no better reason for what does not fit the schema.
func notApplied(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}}
}

// applyToView applies to what a view shows of an object, and answers with the view.
func (o *op) applyToView(ctx context.Context, body map[string]any) (*Result, error) {
	return o.answerView(o.change(ctx, changeOptions{
		tracked: true,
		next: func(old kinds.Object, _ *object.Version) (kinds.Object, error) {
			return o.changeView(old, func(current runtime.Object) (runtime.Object, error) {
				live, ok := current.(kinds.Object)
				if !ok {
					return nil, apierrors.NewBadRequest("the view cannot be applied to")
				}
				view, err := o.applyTo(live, body)
				if err != nil {
					return nil, err
				}
				return view, o.matchView(view)
			}, true)
		},
	}))
}
