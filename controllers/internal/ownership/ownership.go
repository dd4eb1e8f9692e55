// Package ownership makes objects a controller's own and lets go of them: it writes their controller references. What should be owned is
// for the controllers to say. Follows upstream's pkg/controller/controller_ref_manager.go.
package ownership

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Owner is an object that adopts and releases others.
type Owner struct {
	object metav1.Object
	kind   schema.GroupVersionKind
	fetch  func(context.Context) (metav1.Object, error)
	wanted bool // the API server has confirmed that the owner is there
}

// Of returns the owner that a cache shows as object. fetch gets the object of its name from the API server: before the first adoption the
// owner is looked up there, because the cache may show one that is deleted, or another of its name.
func Of[T metav1.Object](object T, kind schema.GroupVersionKind, fetch func(context.Context, string, metav1.GetOptions) (T, error)) *Owner {
	return &Owner{object: object, kind: kind, fetch: func(ctx context.Context) (metav1.Object, error) {
		return fetch(ctx, object.GetName(), metav1.GetOptions{})
	}}
}

// Patcher is the part of a typed client that adoption needs.
type Patcher[T any] interface {
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}

// Adopt makes the owner the controller of the object of this name and uid. It returns false when the object is gone, or when another
// writer was faster; the next event tells.
func Adopt[T any](ctx context.Context, o *Owner, client Patcher[T], name string, uid types.UID) (adopted T, ok bool, err error) {
	if err := o.confirm(ctx); err != nil {
		return adopted, false, err
	}
	return patch(ctx, client, name, uid, []metav1.OwnerReference{*metav1.NewControllerRef(o.object, o.kind)})
}

// Release removes the owner's reference from the object of this name and uid. That the object is gone is no error.
func Release[T any](ctx context.Context, o *Owner, client Patcher[T], name string, uid types.UID) error {
	_, _, err := patch(ctx, client, name, uid, []map[string]any{{"$patch": "delete", "uid": o.object.GetUID()}})
	return err
}

// confirm fails unless the API server has the owner, and it is not being deleted.
func (o *Owner) confirm(ctx context.Context) error {
	if o.wanted {
		return nil
	}
	fresh, err := o.fetch(ctx)
	if err != nil {
		return err
	}
	if fresh.GetUID() != o.object.GetUID() || fresh.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s %s/%s is deleted, or being deleted", o.kind.Kind, o.object.GetNamespace(), o.object.GetName())
	}
	o.wanted = true
	return nil
}

// patch writes owner references. The uid in the patch makes it fail for another object of the same name.
func patch[T any](ctx context.Context, client Patcher[T], name string, uid types.UID, references any) (patched T, ok bool, err error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "ownerReferences": references}})
	if err != nil {
		return patched, false, err
	}
	patched, err = client.Patch(ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
		return patched, false, nil
	}
	return patched, err == nil, err
}
