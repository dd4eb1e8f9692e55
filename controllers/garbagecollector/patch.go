package garbagecollector

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// dropReferences takes the references to some owners out of an object.
func (c *Controller) dropReferences(ctx context.Context, r *resource, object *dependentObject, owners []types.UID) error {
	return c.change(ctx, r, object, func(o *dependentObject) bool {
		before := len(o.OwnerReferences)
		o.OwnerReferences = slices.DeleteFunc(o.OwnerReferences, func(w ownerReference) bool { return slices.Contains(owners, w.UID) })
		return len(o.OwnerReferences) != before
	})
}

// unblock makes all references of an object such that no owner waits for it.
func (c *Controller) unblock(ctx context.Context, r *resource, object *dependentObject) error {
	return c.change(ctx, r, object, func(o *dependentObject) bool {
		changed := false
		for i := range o.OwnerReferences {
			if block := o.OwnerReferences[i].BlockOwnerDeletion; block != nil && *block {
				o.OwnerReferences[i].BlockOwnerDeletion = new(bool)
				changed = true
			}
		}
		return changed
	})
}

// removeFinalizer lets an object go as far as this controller is concerned.
func (c *Controller) removeFinalizer(ctx context.Context, r *resource, object *dependentObject, finalizer string) error {
	return c.change(ctx, r, object, func(o *dependentObject) bool {
		before := len(o.Finalizers)
		o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool { return f == finalizer })
		return len(o.Finalizers) != before
	})
}

// change edits references and finalizers of an object: the cached ones at first, which mostly succeeds in one request, else those on
// the server. The version is a precondition of the patch, so nobody's change is overwritten. An object that is gone, or is
// another by now, is left as it is.
func (c *Controller) change(ctx context.Context, r *resource, cached *dependentObject, edit func(*dependentObject) bool) error {
	objects := c.objects(r, cached.Namespace)
	object := cached.DeepCopy()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if object == nil {
			var err error
			if object, err = objects.Get(ctx, cached.Name, metav1.GetOptions{}); err != nil {
				return err
			}
			if object.UID != cached.UID {
				return nil
			}
		}
		changing := object
		object = nil
		if !edit(changing) {
			return nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid":             changing.UID,
			"resourceVersion": changing.ResourceVersion,
			"ownerReferences": changing.OwnerReferences,
			"finalizers":      changing.Finalizers,
		}})
		if err != nil {
			return fmt.Errorf("encode patch: %w", err)
		}
		_, err = objects.Patch(ctx, changing.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch %s %s/%s: %w", r.gvr.GroupResource(), cached.Namespace, cached.Name, err)
	}
	return nil
}
