package replicaset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"vigil/controllers/internal/ownership"
	"vigil/controllers/internal/podfacts"
	"vigil/informer"
)

// counted says what the pods of a set are counted by.
func counted(set *appsv1.ReplicaSet) (claimed, error) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return claimed{}, fmt.Errorf("selector: %w", err)
	}
	return claimed{
		namespace: set.Namespace, uid: set.UID, selector: selector,
		template: labels.Set(set.Spec.Template.Labels).AsSelectorPreValidated(),
		minReady: time.Duration(set.Spec.MinReadySeconds) * time.Second,
	}, nil
}

// claim returns how many pods a set has, after adopting those that should belong to it and letting go of those that should not.
func (c *Controller) claim(ctx context.Context, set *appsv1.ReplicaSet, by claimed, now time.Time) (counts, error) {
	has, strangers := c.count(by, now)
	if set.DeletionTimestamp != nil {
		return has, nil
	}
	if strangers {
		if err := c.releaseStrangers(ctx, set, by); err != nil {
			return counts{}, err
		}
	}
	if by.selector.Empty() {
		return has, nil
	}
	orphans, err := c.podInformer.Indexer().ByIndex(orphanIndex, set.Namespace)
	if err != nil {
		return counts{}, err
	}
	owner := c.owner(set)
	for _, o := range orphans {
		if !by.selector.Matches(o.Labels()) {
			continue
		}
		state, err := podfacts.StateOf(o)
		if err != nil {
			return counts{}, err
		}
		if !state.Active() {
			continue
		}
		adopted, ok, err := ownership.Adopt(ctx, owner, c.client.CoreV1().Pods(set.Namespace), o.Name(), o.UID())
		if err != nil {
			return counts{}, fmt.Errorf("adopt pod %s: %w", o.Name(), err)
		}
		if ok {
			if s := podfacts.OfPod(adopted).State; s.Active() {
				has.add(by, s, labels.Set(adopted.Labels), now, 1)
			}
		}
	}
	return has, nil
}

// count counts the pods of a set. Those that were deleted and that the cache still shows as wanted are on their way out.
func (c *Controller) count(by claimed, now time.Time) (has counts, strangers bool) {
	c.podInformer.Indexer().Read(func(v informer.View) {
		has, strangers = c.tally.of(by, now)
		for _, o := range c.stillShown(v, by.uid) {
			if state, err := podfacts.StateOf(o); err == nil && state.Active() && by.selector.Matches(o.Labels()) {
				has.add(by, state, o.Labels(), now, -1)
				has.terminating++
			}
		}
	})
	return has, strangers
}

// releaseStrangers lets go of the pods that say they are the set's and that its selector does not match.
func (c *Controller) releaseStrangers(ctx context.Context, set *appsv1.ReplicaSet, by claimed) error {
	owned, err := c.podInformer.Indexer().ByIndex(controllerIndex, string(set.UID))
	if err != nil {
		return err
	}
	owner := c.owner(set)
	for _, o := range owned {
		if o.Namespace() != set.Namespace || by.selector.Matches(o.Labels()) {
			continue
		}
		if state, err := podfacts.StateOf(o); err != nil || state.Deleting {
			continue
		}
		if err := ownership.Release(ctx, owner, c.client.CoreV1().Pods(set.Namespace), o.Name(), o.UID()); err != nil {
			return fmt.Errorf("release pod %s: %w", o.Name(), err)
		}
	}
	return nil
}

func (c *Controller) owner(set *appsv1.ReplicaSet) *ownership.Owner {
	return ownership.Of(set, Kind, c.client.AppsV1().ReplicaSets(set.Namespace).Get)
}
