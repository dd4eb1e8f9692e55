package deployment

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"

	"vigil/controllers/internal/ownership"
	"vigil/informer"
)

// claim returns the sets that belong to a deployment, after adopting those that should and letting go of those that should
// not.
func (c *Controller) claim(ctx context.Context, d *appsv1.Deployment, selector labels.Selector) ([]*appsv1.ReplicaSet, error) {
	owned, err := c.sets.ByIndex(controllerIndex, string(d.UID))
	if err != nil {
		return nil, err
	}
	owner := ownership.Of(d, Kind, c.client.AppsV1().Deployments(d.Namespace).Get)
	client := c.client.AppsV1().ReplicaSets(d.Namespace)
	sets := owned[:0]
	for _, set := range owned {
		if selector.Matches(labels.Set(set.Labels)) {
			sets = append(sets, set)
			continue
		}
		if d.DeletionTimestamp == nil && set.DeletionTimestamp == nil {
			if err := ownership.Release(ctx, owner, client, set.Name, set.UID); err != nil {
				return nil, fmt.Errorf("release replica set %s: %w", set.Name, err)
			}
		}
	}
	if d.DeletionTimestamp != nil {
		return sets, nil
	}
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
		adopted, ok, err := ownership.Adopt(ctx, owner, client, set.Name, set.UID)
		if err != nil {
			return nil, fmt.Errorf("adopt replica set %s: %w", set.Name, err)
		}
		if ok {
			sets = append(sets, adopted)
		}
	}
	return sets, nil
}
