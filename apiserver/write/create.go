package write

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"vigil/apiserver/admission"
	"vigil/kinds"
	"vigil/object"
	"vigil/store"
)

// Create stores a new object (201). On a subresource it does what is POSTed there: a Binding binds.
func (w *Writer) Create(ctx context.Context, r *Request) (*Result, error) {
	o, err := w.begin(r, "create")
	if err != nil {
		return nil, err
	}
	if o.opts, err = writeOptions(r.RawQuery, "CreateOptions", ""); err != nil {
		return nil, err
	}
	if post := o.hooks[o.gr()].Post[r.Subresource]; post != nil {
		return o.post(ctx, post)
	}
	if o.sub == nil && o.k.Unstored {
		// The row only gives an action another path.
		if o, err = o.redirect(); err != nil {
			return nil, err
		}
	}
	if o.sub != nil {
		return o.act(ctx)
	}

	body, err := o.decodeBody()
	if err != nil {
		return nil, err
	}
	obj := body.(kinds.Object)
	if err := o.matchNamespace(obj); err != nil {
		return nil, err
	}
	if r.Name != "" {
		if obj.GetName() == "" {
			obj.SetName(r.Name)
		} else if err := o.matchName(obj); err != nil {
			return nil, err
		}
	}
	v, err := o.create(ctx, obj)
	if err != nil {
		return nil, err
	}
	return o.created(obj, v)
}

// create stores obj under its name or under a generated one.
func (o *op) create(ctx context.Context, obj kinds.Object) (*object.Version, error) {
	generated := obj.GetName() == "" && obj.GetGenerateName() != ""
	dropSystemMetadata(obj)
	o.track(obj, nil)
	a, err := o.prepareNew(ctx, obj)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		v, err := o.createOnce(ctx, obj, &a)
		switch {
		case err == nil:
			if o.opts.dryRun {
				a.rolledBack()
			} else {
				a.committed()
			}
			return v, nil
		case !generated || !errors.Is(err, store.ErrExists):
			a.failed(err)
			return nil, o.notCreated(ctx, err, obj.GetName())
		case try == generateAttempts:
			a.rolledBack()
			return nil, generateNameConflict(o.gr(), obj.GetName())
		}
		obj.SetName(generateName(obj.GetGenerateName()))
		o.setDefaults(obj) // some come from the name
		if a.stored, err = object.EncodeStored(o.k.Type, obj); err != nil {
			a.rolledBack()
			return nil, toStatus(err, o.gr(), obj.GetName(), o.verb)
		}
	}
}

func (o *op) createOnce(ctx context.Context, obj kinds.Object, a *attempt) (*object.Version, error) {
	key := o.Writer.key(o.k, obj.GetNamespace(), obj.GetName())
	if o.opts.dryRun {
		_, err := o.store.Get(ctx, key)
		switch {
		case err == nil:
			return nil, store.ErrExists
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
		return o.pretend(key, &current{}, a)
	}
	if namesRevision(obj.GetResourceVersion()) {
		return nil, versionOnCreate()
	}
	rev, err := o.store.Create(ctx, key, a.stored, a.ttl)
	if err != nil {
		return nil, err
	}
	o.res.Wrote(rev)
	return o.written(key, rev, a.stored)
}

// namesRevision says whether a resource version names a revision. Other texts than numbers and 0 do not.
func namesRevision(resourceVersion string) bool {
	rev, err := strconv.ParseUint(resourceVersion, 10, 64)
	return err == nil && rev != 0
}

// prepareNew makes a decoded object ready for storage: everything between its decoding and etcd.
func (o *op) prepareNew(ctx context.Context, obj kinds.Object) (attempt, error) {
	admitted, err := o.admit(ctx, admission.Create, "", obj, nil)
	if err != nil {
		return attempt{}, err
	}
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(generateName(obj.GetGenerateName()))
	}
	o.newMetadata(obj)
	o.dropRepeatedOwners(obj)
	if o.k.Drop != nil {
		o.warn.add(o.k.Drop(obj, nil)...)
	}
	if o.k.PrepareCreate != nil {
		o.k.PrepareCreate(obj)
	}
	if o.k.PrepareCreateFor != nil {
		var user kinds.User
		if u := o.r.User; u != nil {
			user = kinds.User{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
		}
		o.k.PrepareCreateFor(obj, user)
	}
	a := attempt{do: put, obj: obj, admitted: admitted}
	if a.commit, a.rollback, err = o.hook(ctx, obj, nil); err != nil {
		return attempt{}, toStatus(err, o.gr(), obj.GetName(), o.verb)
	}
	if err = o.validateNew(obj); err == nil {
		o.warn.addFor(o.k, obj, nil)
		if o.k.TTL != nil {
			a.ttl = o.k.TTL(obj)
		}
		a.stored, err = object.EncodeStored(o.k.Type, obj)
	}
	if err == nil {
		err = a.admitted.validate(ctx, o)
	}
	if err != nil {
		a.rolledBack()
		return attempt{}, toStatus(err, o.gr(), obj.GetName(), o.verb)
	}
	return a, nil
}

// notCreated is the Status of a create that etcd refused. It tells a client whose object is still on its way out so.
func (o *op) notCreated(ctx context.Context, err error, name string) error {
	status := toStatus(err, o.gr(), name, o.verb)
	if !errors.Is(err, store.ErrExists) {
		return status
	}
	cur, err := o.load(ctx, o.Writer.key(o.k, o.r.Namespace, name), 0)
	if err != nil || cur.v == nil {
		return status
	}
	if existing, err := o.decodeCurrent(cur.v); err == nil && existing.GetDeletionTimestamp() != nil {
		return beingDeleted(status)
	}
	return status
}

// created answers a create. A dry run has no resource version to show but what the client sent.
func (o *op) created(obj kinds.Object, v *object.Version) (*Result, error) {
	if o.opts.dryRun {
		return o.resultObject(http.StatusCreated, obj), nil
	}
	return o.result(http.StatusCreated, v), nil
}
