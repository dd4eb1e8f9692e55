package write

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/admission"
	"vigil/kinds"
	"vigil/object"
)

// changeOptions says how an update or patch comes to the next state of an object.
type changeOptions struct {
	// next returns the state that the client wants, given the current one (nil when there is none). It is called again
	// with each state that turns out to be current. The object returned is the caller's.
	next func(old kinds.Object, cur *object.Version) (kinds.Object, error)
	// act changes the object after it has been validated; nil does nothing.
	act func(obj kinds.Object) error

	atLeast     int64 // a revision that the client has seen
	allowCreate bool
	tracked     bool // next has seen to the managed fields
}

// change brings the object of the request to the state that the client wants.
func (o *op) change(ctx context.Context, c changeOptions) (*attempt, *object.Version, error) {
	return o.run(ctx, o.key(), c.atLeast, func(cur *object.Version) (attempt, error) {
		if cur == nil {
			return o.tryCreate(ctx, c)
		}
		return o.tryChange(ctx, c, cur)
	})
}

// answer makes a Result of what change returns.
func (o *op) answer(a *attempt, v *object.Version, err error) (*Result, error) {
	switch {
	case err != nil:
		return nil, err
	case a.created:
		return o.created(a.obj, v)
	default:
		return o.result(http.StatusOK, v), nil
	}
}

// tryCreate is a change where there is no object.
func (o *op) tryCreate(ctx context.Context, c changeOptions) (attempt, error) {
	if !c.allowCreate {
		return attempt{}, apierrors.NewNotFound(o.gr(), o.r.Name)
	}
	obj, err := c.next(nil, nil)
	if err != nil {
		return attempt{}, err
	}
	if err := o.may(ctx, "create", ""); err != nil {
		return attempt{}, err
	}
	dropSystemMetadata(obj)
	if !c.tracked {
		o.track(obj, nil)
	}
	a, err := o.prepareNew(ctx, obj)
	a.created = true
	return a, err
}

// tryChange is a change of an object.
func (o *op) tryChange(ctx context.Context, c changeOptions, cur *object.Version) (attempt, error) {
	old, err := o.decodeCurrent(cur)
	if err != nil {
		return attempt{}, err
	}
	obj, err := c.next(old, cur)
	if err != nil {
		return attempt{}, err
	}
	if err := o.matchResourceVersion(obj, old); err != nil {
		return attempt{}, err
	}
	if !c.tracked {
		o.track(obj, old)
	}
	a := attempt{do: put, obj: obj}
	if !o.view() {
		if a.admitted, err = o.admit(ctx, admission.Update, o.r.Subresource, obj, old); err != nil {
			return attempt{}, err
		}
	}
	o.prepareChanged(obj, old)
	if o.sub == nil {
		if a.commit, a.rollback, err = o.hook(ctx, obj, old); err != nil {
			return attempt{}, err
		}
	}
	if err := o.finishChange(ctx, &a, c, old, cur); err != nil {
		a.rolledBack()
		return attempt{}, err
	}
	return a, nil
}

// prepareChanged puts back from old what this request may not change.
func (o *op) prepareChanged(obj, old kinds.Object) {
	obj.SetGeneration(old.GetGeneration())
	obj.SetSelfLink("")
	tracked := obj.GetManagedFields()
	if o.k.Drop != nil && (o.sub == nil || o.sub.Name != "status") {
		o.warn.add(o.k.Drop(obj, old)...)
	}
	switch {
	case o.part():
		if o.sub.Prepare != nil {
			o.sub.Prepare(obj, old)
		}
	case o.k.PrepareUpdate != nil:
		o.k.PrepareUpdate(obj, old)
	}
	keepMetadata(obj, old)
	obj.SetManagedFields(tracked)
}

// finishChange validates and encodes the changed object and decides what has to be written.
func (o *op) finishChange(ctx context.Context, a *attempt, c changeOptions, old kinds.Object, cur *object.Version) error {
	if err := o.validateChanged(a.obj, old); err != nil {
		return err
	}
	if o.sub == nil {
		o.warn.addFor(o.k, a.obj, old)
	}
	var err error
	if a.stored, err = o.encode(a.obj, old, cur); err != nil {
		return err
	}
	if c.act != nil {
		if err := c.act(a.obj); err != nil {
			return err
		}
		if a.stored, err = object.EncodeStored(o.k.Type, a.obj); err != nil {
			return err
		}
	}
	switch {
	case o.finalized(a.obj, old):
		a.do = remove
	case cur.EqualStored(a.stored), o.onlyTimesChanged(a.stored, a.obj, old, cur):
		a.do = keep
	}
	if err := a.admitted.validate(ctx, o); err != nil {
		return err
	}
	if o.k.TTL != nil {
		a.ttl = o.k.TTL(a.obj)
	}
	return nil
}

// finalized says that obj is what a deletion has been waiting for: old is being deleted, its grace period is over, and
// obj has no finalizer left.
func (o *op) finalized(obj, old kinds.Object) bool {
	if old.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 {
		return false
	}
	if o.k.SpecFinalizers != nil && len(o.k.SpecFinalizers(obj)) > 0 {
		return false
	}
	grace := old.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// may asks whether the user may do a verb on the object of the request, or on a subresource of it.
func (o *op) may(ctx context.Context, verb, subresource string) error {
	err := o.authorize(ctx, Access{
		User:        o.r.User,
		Verb:        verb,
		Resource:    schema.GroupVersionResource{Group: o.k.GVK.Group, Version: o.k.GVK.Version, Resource: o.k.Resource},
		Subresource: subresource,
		Namespace:   o.r.Namespace,
		Name:        o.r.Name,
	})
	return toStatus(err, o.gr(), o.r.Name, o.verb)
}
