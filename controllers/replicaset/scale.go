package replicaset

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/controllers/internal/podcontrol"
	"vigil/controllers/internal/podfacts"
	"vigil/informer"
)

// scale creates or deletes pods until there are as many as the set wants. Of several errors it returns one: the condition
// ReplicaFailure shows its text to people.
func (c *Controller) scale(ctx context.Context, set *appsv1.ReplicaSet, by claimed, has counts) error {
	switch diff := has.active - int(replicas(set)); {
	case diff < 0:
		return c.create(ctx, set, min(-diff, burst))
	case diff > 0:
		chosen, err := c.choose(set, by)
		if err != nil {
			return err
		}
		return c.remove(ctx, set, chosen)
	}
	return nil
}

// choose returns the pods that are too many now, at most burst.
func (c *Controller) choose(set *appsv1.ReplicaSet, by claimed) ([]podfacts.Facts, error) {
	related, err := c.relatedPods(set)
	if err != nil {
		return nil, err
	}
	var active []podfacts.Facts
	c.podInformer.Indexer().Read(func(v informer.View) {
		var owned []*informer.Object
		if owned, err = v.ByIndex(controllerIndex, string(set.UID)); err != nil {
			return
		}
		gone := map[types.UID]bool{}
		for _, o := range c.stillShown(v, set.UID) {
			gone[o.UID()] = true
		}
		active = make([]podfacts.Facts, 0, len(owned))
		for _, o := range owned {
			if o.Namespace() != set.Namespace || !by.selector.Matches(o.Labels()) {
				continue
			}
			var pod podfacts.Facts
			if pod, err = podfacts.Of(o); err != nil {
				return
			}
			if pod.Active() && !gone[pod.UID] {
				active = append(active, pod)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return victims(active, related, max(0, min(len(active)-int(replicas(set)), burst)), time.Now()), nil
}

func replicas(set *appsv1.ReplicaSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// deletesAtOnce bounds the deletions of one set that are under way.
const deletesAtOnce = 32

func (c *Controller) create(ctx context.Context, set *appsv1.ReplicaSet, count int) error {
	return podcontrol.SlowStart(c.logger, count, func() error {
		made, err := c.pods.Create(ctx, set, podcontrol.FromTemplate(&set.Spec.Template, set, Kind))
		if made != nil {
			c.wrote.Wrote(set.UID, made.ResourceVersion)
		}
		return err
	})
}

func (c *Controller) remove(ctx context.Context, set *appsv1.ReplicaSet, pods []podfacts.Facts) error {
	return podcontrol.Each(c.logger, len(pods), deletesAtOnce, func(i int) error {
		err := c.pods.Delete(ctx, set, pods[i].Name, pods[i].UID)
		if err == nil {
			c.noteDeleted(set.UID, pods[i].UID, set.Namespace+"/"+pods[i].Name)
		}
		return err
	})
}

// relatedPods counts, by node, the active pods of all sets that have the same controller: during a rolling update pods
// are best taken away where their successors already run.
func (c *Controller) relatedPods(set *appsv1.ReplicaSet) (map[string]int, error) {
	sets := []types.UID{set.UID}
	if owner := metav1.GetControllerOf(set); owner != nil {
		siblings, err := c.setInformer.Indexer().ByIndex(controllerIndex, string(owner.UID))
		if err != nil {
			return nil, err
		}
		for _, sibling := range siblings {
			if sibling.UID() != set.UID {
				sets = append(sets, sibling.UID())
			}
		}
	}
	onNode := map[string]int{}
	for _, uid := range sets {
		pods, err := c.podInformer.Indexer().ByIndex(controllerIndex, string(uid))
		if err != nil {
			return nil, err
		}
		for _, o := range pods {
			pod, err := podfacts.Of(o)
			if err != nil {
				return nil, err
			}
			if pod.Active() && o.Namespace() == set.Namespace {
				onNode[pod.Node]++
			}
		}
	}
	return onNode, nil
}
