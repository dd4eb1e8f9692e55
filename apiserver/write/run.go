package write

import (
	"context"
	"errors"
	"strconv"
	"time"

	"vigil/kinds"
	"vigil/object"
	"vigil/store"
)

// action is what an attempt wants done with the object.
type action int

const (
	keep   action = iota // nothing has to be written
	put                  // write the object: a create when there is none, else an update
	remove               // remove the key
)

// attempt is the outcome of one try to compute the next state from the current one.
type attempt struct {
	do     action
	obj    kinds.Object  // put, remove: the next state
	stored []byte        // obj encoded; nil for a remove that answers with the object as it was
	ttl    time.Duration // put: 0 is for ever

	created bool // there was nothing before
	last    bool // put: of an object that is to be removed right afterwards

	commit, rollback func() // of the hook; nil when there was none
	admitted         admitted
}

func (a *attempt) committed() {
	if a.commit != nil {
		a.commit()
	}
	a.admitted.end(true)
}

func (a *attempt) rolledBack() {
	if a.rollback != nil {
		a.rollback()
	}
	a.admitted.end(false)
}

// failed ends an attempt whose write returned err. When that leaves open what happened, the hook is told nothing: giving
// back what a stored object has would be worse than keeping what it has not.
func (a *attempt) failed(err error) {
	if !errors.Is(err, store.ErrUncertain) {
		a.rolledBack()
	}
}

// current is the state a try starts from.
type current struct {
	v     *object.Version // nil when there is no object
	fresh bool            // it comes from etcd, not from the cache
	stale bool            // etcd has it encrypted in another way than it would be now
}

// run brings the object at key from its current state to the one that try computes, however often others change it in
// between. It starts from the cache, goes on with what etcd returns when the compare fails, and trusts a refusal or a
// keep only when they were founded on etcd. atLeast is a revision that the client has seen: an older cached version is
// not even tried. It returns the last attempt and the version to answer with, which for a remove is the removed one at
// the revision of the removal. With dryRun nothing is written, and the version is that of the attempt's outcome.
func (o *op) run(ctx context.Context, key string, atLeast int64, try func(cur *object.Version) (attempt, error)) (*attempt, *object.Version, error) {
	cur, err := o.load(ctx, key, atLeast)
	if err != nil {
		return nil, nil, toStatus(err, o.gr(), o.r.Name, o.verb)
	}
	return o.runFrom(ctx, key, cur, try)
}

// runFrom is run from a state that is known.
func (o *op) runFrom(ctx context.Context, key string, cur current, try func(cur *object.Version) (attempt, error)) (*attempt, *object.Version, error) {
	a, v, err := o.loop(ctx, key, cur, try)
	if err != nil {
		return nil, nil, toStatus(err, o.gr(), o.r.Name, o.verb)
	}
	return a, v, nil
}

func (o *op) loop(ctx context.Context, key string, cur current, try func(cur *object.Version) (attempt, error)) (*attempt, *object.Version, error) {
	for {
		a, err := try(cur.v)
		if err == nil && a.do == keep && a.stored != nil && cur.stale {
			a.do = put // the same once more, but with the newest key
		}
		if err != nil || a.do == keep {
			a.rolledBack()
			if !cur.fresh {
				changed, reloadErr := o.refresh(ctx, key, &cur)
				if reloadErr != nil {
					return nil, nil, reloadErr
				}
				if changed {
					continue
				}
			}
			if err != nil {
				return nil, nil, err
			}
			return &a, cur.v, nil
		}
		v, err := o.write1(ctx, key, &cur, &a)
		if err != nil {
			a.failed(err)
			return nil, nil, err
		}
		if v == nil {
			a.rolledBack()
			continue // cur is what etcd has now
		}
		if o.opts.dryRun {
			a.rolledBack()
			return &a, v, nil
		}
		a.committed()
		if a.do == remove {
			o.deleted(ctx, a.obj)
		}
		return &a, v, nil
	}
}

// write1 does what an attempt asks for, once. It returns nil and sets cur when etcd has another state than cur.
func (o *op) write1(ctx context.Context, key string, cur *current, a *attempt) (*object.Version, error) {
	if o.opts.dryRun {
		return o.pretend(key, cur, a)
	}
	var (
		rev int64
		err error
	)
	switch {
	case a.do == remove:
		rev, err = o.store.Delete(ctx, key, cur.v.Revision())
	case cur.v == nil:
		rev, err = o.store.Create(ctx, key, a.stored, a.ttl)
	default:
		rev, err = o.store.Update(ctx, key, a.stored, cur.v.Revision(), a.ttl)
	}
	if err == nil {
		o.res.Wrote(rev)
	}
	var conflict *store.ConflictError
	switch {
	case err == nil && a.stored == nil:
		return cur.v.At(rev), nil
	case err == nil:
		if cur.v != nil {
			key = cur.v.Key() // one string for all versions
		}
		return o.written(key, rev, a.stored)
	case errors.As(err, &conflict):
		return nil, o.take(cur, conflict.Current, conflict.Found)
	case cur.v == nil && errors.Is(err, store.ErrExists):
		_, err = o.refresh(ctx, key, cur)
		return nil, err
	default:
		return nil, err
	}
}

// written returns the version that has been written to etcd.
func (o *op) written(key string, rev int64, stored []byte) (*object.Version, error) {
	v, err := object.NewVersion(o.k.Type, key, rev, stored)
	if err != nil {
		return nil, err
	}
	o.res.Cache.Written(v)
	return v, nil
}

// pretend answers a dry run.
func (o *op) pretend(key string, cur *current, a *attempt) (*object.Version, error) {
	if a.stored == nil {
		return cur.v, nil
	}
	var rev int64
	if cur.v != nil {
		rev = cur.v.Revision()
	}
	return object.NewVersion(o.k.Type, key, rev, a.stored)
}

// load finds the object in the cache or, when it is not there or older than atLeast, in etcd.
func (o *op) load(ctx context.Context, key string, atLeast int64) (current, error) {
	if v, ok := o.res.Cache.Get(key); ok && v.Revision() >= atLeast {
		return current{v: v}, nil
	}
	var cur current
	_, err := o.refresh(ctx, key, &cur)
	return cur, err
}

// refresh reads the object from etcd and says whether that changed anything.
func (o *op) refresh(ctx context.Context, key string, cur *current) (changed bool, err error) {
	kv, err := o.store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		changed = cur.v != nil
		*cur = current{fresh: true}
		return changed, nil
	}
	if err != nil {
		return false, err
	}
	if cur.v != nil && cur.v.Revision() == kv.ModRev {
		cur.fresh, cur.stale = true, kv.Stale
		return cur.stale, nil
	}
	return true, o.take(cur, kv, true)
}

// take makes what etcd returned the current state.
func (o *op) take(cur *current, kv store.KV, found bool) error {
	*cur = current{fresh: true, stale: kv.Stale}
	if !found {
		return nil
	}
	if kv.Err != nil {
		return kv.Err
	}
	v, err := object.NewVersion(o.k.Type, kv.Key, kv.ModRev, kv.Value)
	cur.v = v
	return err
}

// seenRevision is the revision that a resource version names, 0 when it is none.
func seenRevision(resourceVersion string) int64 {
	rev, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return rev
}
