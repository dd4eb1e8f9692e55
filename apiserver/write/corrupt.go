package write

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/object"
	"vigil/store"
)

// ignoresReadErrors says that a delete is meant for an object that can no longer be read (KEP-3926).
func ignoresReadErrors(opts *metav1.DeleteOptions) bool {
	ignore := opts.IgnoreStoreReadErrorWithClusterBreakingPotential
	return ignore != nil && *ignore
}

// noCollectionOfCorrupt refuses to delete whole collections that way.
func noCollectionOfCorrupt(opts *metav1.DeleteOptions) error {
	if !ignoresReadErrors(opts) {
		return nil
	}
	return invalidOptions("DeleteOptions", field.ErrorList{
		field.Invalid(field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential"), true, "is not allowed with DELETECOLLECTION, try again after removing the option"),
	})
}

// removeCorrupt removes an object whose stored bytes cannot be read, past finalizers and grace. An object that can be
// read is a Conflict. It takes a permission of its own.
func (o *op) removeCorrupt(ctx context.Context) (*Result, error) {
	if err := o.may(ctx, "unsafe-delete-ignore-read-errors", ""); err != nil {
		return nil, err
	}
	for {
		kv, err := o.store.Get(ctx, o.key())
		if err != nil {
			return nil, toStatus(err, o.gr(), o.r.Name, o.verb)
		}
		if o.readable(kv) {
			return nil, apierrors.NewConflict(o.gr(), o.r.Name, errors.New("the object can be read, delete it without ignoreStoreReadErrorWithClusterBreakingPotential"))
		}
		if !o.opts.dryRun {
			_, err = o.store.Delete(ctx, kv.Key, kv.ModRev)
		}
		switch {
		case errors.Is(err, store.ErrConflict):
			continue
		case err != nil:
			return nil, toStatus(err, o.gr(), o.r.Name, o.verb)
		}
		return o.resultObject(http.StatusOK, &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusSuccess,
			Details:  &metav1.StatusDetails{Name: o.r.Name, Group: o.k.GVK.Group, Kind: o.k.Resource},
		}), nil
	}
}

func (o *op) readable(kv store.KV) bool {
	if kv.Err != nil {
		return false
	}
	v, err := object.NewVersion(o.k.Type, kv.Key, kv.ModRev, kv.Value)
	if err == nil {
		_, err = v.Decode()
	}
	return err == nil
}
