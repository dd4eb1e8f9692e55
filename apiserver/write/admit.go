package write

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"vigil/apiserver/admission"
	"vigil/apiserver/authn"
	"vigil/kinds"
)

// self is who writes when a request says nobody: the server.
var self = &authn.User{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}

func ignore(string, string) {}

// admitted is the way of one try through admission.
type admitted struct {
	steps *admission.Steps // nil: nobody asks
	attr  *admission.Attributes
}

// admit lets the mutators complete obj, which belongs to the resource or to its subresource sub. What they did may have to be
// done again on the next try, so what it returns is for this one.
func (o *op) admit(ctx context.Context, operation admission.Operation, sub string, obj, old runtime.Object) (admitted, error) {
	steps := o.res.Admission.For(sub, operation)
	if steps == nil {
		return admitted{}, nil
	}
	a := &admission.Attributes{
		Kind: o.k, Subresource: sub, Namespace: o.r.Namespace, Name: o.r.Name, Operation: operation,
		Object: obj, Old: old,
		User: o.r.User, DryRun: o.opts.dryRun,
		Warn: o.warn.addOne, Annotate: o.r.Annotate,
	}
	if a.User == nil {
		a.User = self
	}
	if a.Annotate == nil {
		a.Annotate = ignore
	}
	if a.Name == "" && operation == admission.Create {
		if meta, ok := obj.(kinds.Object); ok {
			a.Name = meta.GetName()
		}
	}
	err := steps.Mutate(ctx, a)
	return admitted{steps, a}, toStatus(err, o.gr(), a.Name, o.verb)
}

// validate asks the validators, before something is stored that has been validated.
func (a *admitted) validate(ctx context.Context, o *op) error {
	if a.steps == nil {
		return nil
	}
	if obj, ok := a.attr.Object.(kinds.Object); ok && a.attr.Name == "" {
		a.attr.Name = obj.GetName() // which has been generated since
	}
	if err := a.steps.Validate(ctx, a.attr); err != nil {
		a.attr.End(false)
		return toStatus(err, o.gr(), a.attr.Name, o.verb)
	}
	return nil
}

// end tells the plug-ins what has become of the write.
func (a *admitted) end(stored bool) {
	if a.attr != nil {
		a.attr.End(stored)
	}
}
