package deployment

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/controllers/internal/podfacts"
)

// rollout is one reconciliation of one deployment. d and sets are copies; they are kept up to date with what is written.
type rollout struct {
	c    *Controller
	d    *appsv1.Deployment
	sets []*appsv1.ReplicaSet
	wait time.Duration // when to look again at the latest, 0: when something happens
}

// scaled says whether the deployment's size was changed since its running sets were last scaled.
func (r *rollout) scaled() bool {
	for _, set := range withReplicas(r.sets) {
		if desired, ok := annotatedNumber(set, desiredAnnotation); ok && desired != wanted(r.d) {
			return true
		}
	}
	return false
}

// roll does one step of a rolling update.
func (r *rollout) roll(ctx context.Context) error {
	fresh, old := r.split()
	fresh, err := r.ensureNew(ctx, fresh, old)
	if err != nil {
		return err
	}
	if grown, err := r.grow(ctx, fresh); err != nil || grown {
		return r.after(ctx, err)
	}
	if shrunk, err := r.shrinkOld(ctx, fresh, withReplicas(old)); err != nil || shrunk {
		return r.after(ctx, err)
	}
	if r.complete(r.status(fresh)) {
		if err := r.trimHistory(ctx, old); err != nil {
			return err
		}
	}
	return r.writeProgress(ctx)
}

// after writes the status at the end of a step that changed something.
func (r *rollout) after(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return r.writeProgress(ctx)
}

// grow gives the new set the size that the bounds allow.
func (r *rollout) grow(ctx context.Context, fresh *appsv1.ReplicaSet) (bool, error) {
	size := wanted(r.d)
	if replicas(fresh) < size {
		size = newSetSize(r.d, r.sets, fresh)
	}
	if replicas(fresh) == size {
		return false, nil
	}
	return true, r.scaleSet(ctx, fresh, size)
}

// shrinkOld takes from the old sets what may go: first pods that do not work anyway, then working ones as the new set's
// become available.
func (r *rollout) shrinkOld(ctx context.Context, fresh *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) (bool, error) {
	if len(old) == 0 {
		return false, nil
	}
	left := spare(r.d, r.sets, fresh)
	if left <= 0 {
		return false, nil
	}
	changed := false
	sorted := byCreation(old)
	for i, set := range sorted {
		broken := replicas(set) - set.Status.AvailableReplicas
		if broken <= 0 || left <= 0 {
			continue
		}
		take := min(left, broken)
		if err := r.scaleSet(ctx, set, replicas(set)-take); err != nil {
			return changed, err
		}
		left -= take
		changed = true
		sorted[i] = r.current(set)
	}
	left = available(r.sets) - least(r.d)
	for _, set := range sorted {
		if left <= 0 {
			break
		}
		take := min(left, replicas(set))
		if take == 0 {
			continue
		}
		if err := r.scaleSet(ctx, set, replicas(set)-take); err != nil {
			return changed, err
		}
		left -= take
		changed = true
	}
	return changed, nil
}

// current is the set as it was last written in this round.
func (r *rollout) current(set *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	for _, s := range r.sets {
		if s.UID == set.UID {
			return s
		}
	}
	return set
}

// recreate empties the old sets, waits until their pods are gone, and only then makes new ones.
func (r *rollout) recreate(ctx context.Context) error {
	fresh, old := r.split()
	emptied := false
	for _, set := range withReplicas(old) {
		if err := r.scaleSet(ctx, set, 0); err != nil {
			return err
		}
		emptied = true
	}
	if emptied {
		return r.writeProgress(ctx)
	}
	running, err := r.oldPodsRun(old)
	if err != nil {
		return err
	}
	if running {
		return r.writeProgress(ctx)
	}
	fresh, err = r.ensureNew(ctx, fresh, old)
	if err != nil {
		return err
	}
	if err := r.scaleSet(ctx, fresh, wanted(r.d)); err != nil {
		return err
	}
	if r.complete(r.status(r.current(fresh))) {
		if err := r.trimHistory(ctx, old); err != nil {
			return err
		}
	}
	return r.writeProgress(ctx)
}

func (r *rollout) oldPodsRun(old []*appsv1.ReplicaSet) (bool, error) {
	for _, set := range old {
		pods, err := r.c.podInformer.Indexer().ByIndex(controllerIndex, string(set.UID))
		if err != nil {
			return false, err
		}
		for _, o := range pods {
			state, err := podfacts.StateOf(o)
			if err != nil {
				return false, err
			}
			if !state.Finished {
				return true, nil
			}
		}
	}
	return false, nil
}

// onlyScale changes sizes without moving to the new template: the deployment is paused, or was scaled.
func (r *rollout) onlyScale(ctx context.Context) error {
	fresh, old := r.split()
	if fresh != nil {
		var err error
		if fresh, err = r.ensureNew(ctx, fresh, old); err != nil {
			return err
		}
	}
	if err := r.resize(ctx, fresh, old); err != nil {
		return err
	}
	if r.d.Spec.Paused {
		if err := r.trimHistory(ctx, old); err != nil {
			return err
		}
	}
	return r.writeStatusWith(ctx, r.status(fresh))
}

// resize distributes the deployment's size over its sets.
func (r *rollout) resize(ctx context.Context, fresh *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) error {
	running := withReplicas(r.sets)
	if len(running) <= 1 {
		only := fresh
		if len(running) == 1 {
			only = running[0]
		} else if only == nil && len(old) > 0 {
			only = byCreation(old)[len(old)-1]
		}
		if only == nil {
			return nil
		}
		return r.scaleSet(ctx, only, wanted(r.d))
	}
	if saturated(r.d, fresh) {
		for _, set := range withReplicas(old) {
			if err := r.scaleSet(ctx, set, 0); err != nil {
				return err
			}
		}
		return nil
	}
	if r.d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return nil
	}
	return r.resizeInProportion(ctx, running)
}

// resizeInProportion lets every running set keep its part of the whole; what rounding leaves goes to the largest.
func (r *rollout) resizeInProportion(ctx context.Context, running []*appsv1.ReplicaSet) error {
	surge, _ := bounds(r.d)
	target := int32(0)
	if wanted(r.d) > 0 {
		target = wanted(r.d) + surge
	}
	toAdd := target - total(running)
	sorted := bySize(running, toAdd > 0)
	sizes := make([]int32, len(sorted))
	var added int32
	for i, set := range sorted {
		sizes[i] = replicas(set)
		if toAdd == 0 {
			continue
		}
		annotated, ok := annotatedNumber(set, maxAnnotation)
		if !ok || annotated == 0 {
			annotated = r.d.Status.Replicas
		}
		change := proportion(replicas(set), target, annotated, toAdd, added)
		sizes[i] += change
		added += change
	}
	for i, set := range sorted {
		if i == 0 && toAdd != 0 {
			sizes[i] = max(0, sizes[i]+toAdd-added)
		}
		if err := r.scaleSet(ctx, set, sizes[i]); err != nil {
			return err
		}
	}
	return nil
}

// trimHistory deletes the empty ones among the oldest sets beyond revisionHistoryLimit.
func (r *rollout) trimHistory(ctx context.Context, old []*appsv1.ReplicaSet) error {
	if r.d.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	for _, set := range surplus(old, int(*r.d.Spec.RevisionHistoryLimit)) {
		err := r.c.client.AppsV1().ReplicaSets(set.Namespace).Delete(ctx, set.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &set.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
