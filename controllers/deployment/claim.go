package deployment

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer"
)

// claim returns the sets that belong to a deployment, after adopting those that should and letting go of those that should
// not.
func (c *Controller) claim(ctx context.Context, d *appsv1.Deployment, selector labels.Selector) ([]*appsv1.ReplicaSet, error) {
	owned, err := c.sets.ByIndex(controllerIndex, string(d.UID))
	if err != nil {
		return nil, err
	}
	sets := owned[:0]
	for _, set := range owned {
		if selector.Matches(labels.Set(set.Labels)) {
			sets = append(sets, set)
			continue
		}
		if d.DeletionTimestamp == nil && set.DeletionTimestamp == nil {
			release := []map[string]any{{"$patch": "delete", "uid": d.UID}}
			if _, err := c.patchOwner(ctx, set, release); err != nil {
				return nil, fmt.Errorf("release replica set %s: %w", set.Name, err)
			}
		}
	}
	if d.DeletionTimestamp != nil {
		return sets, nil
	}
	checked := false
	for _, o := range c.setInformer.Indexer().List(d.Namespace) {
		if _, taken := o.Controller(); taken || !selector.Matches(o.Labels()) {
			continue
		}
		set, err := informer.As[*appsv1.ReplicaSet](o)
		if err != nil {
			return nil, err
		}
		if set.DeletionTimestamp != nil {
			continue
		}
		if !checked { // the cache may show a deployment that has been deleted, or another of its name
			fresh, err := c.client.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			if fresh.UID != d.UID || fresh.DeletionTimestamp != nil {
				return nil, fmt.Errorf("deployment %s/%s is gone or going", d.Namespace, d.Name)
			}
			checked = true
		}
		adopted, err := c.patchOwner(ctx, set, []metav1.OwnerReference{*metav1.NewControllerRef(d, Kind)})
		if err != nil {
			return nil, fmt.Errorf("adopt replica set %s: %w", set.Name, err)
		}
		if adopted != nil {
			sets = append(sets, adopted)
		}
	}
	return sets, nil
}

// patchOwner changes owner references; nil when the set is gone or somebody else was faster.
func (c *Controller) patchOwner(ctx context.Context, set *appsv1.ReplicaSet, references any) (*appsv1.ReplicaSet, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": set.UID, "ownerReferences": references}})
	if err != nil {
		return nil, err
	}
	patched, err := c.client.AppsV1().ReplicaSets(set.Namespace).Patch(ctx, set.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
		return nil, nil
	}
	return patched, err
}
