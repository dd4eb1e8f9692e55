package deployment

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The sums of a rollout, without side effects.

// wanted is how many replicas the deployment asks for.
func wanted(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func replicas(set *appsv1.ReplicaSet) int32 {
	if set == nil {
		return 0
	}
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// total adds up what the sets ask for.
func total(sets []*appsv1.ReplicaSet) (sum int32) {
	for _, set := range sets {
		sum += replicas(set)
	}
	return sum
}

// bounds resolves maxSurge and maxUnavailable to numbers of pods. Surge is rounded up, unavailable down and at most the size;
// they are never both zero unless the size is, or nothing could move.
func bounds(d *appsv1.Deployment) (surge, unavailable int32) {
	rolling := d.Spec.Strategy.RollingUpdate
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || rolling == nil {
		return 0, 0
	}
	value := func(v *intstr.IntOrString, up bool) int32 {
		if v == nil {
			return 0
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(v, int(wanted(d)), up)
		if err != nil {
			return 0
		}
		return int32(n)
	}
	surge, unavailable = value(rolling.MaxSurge, true), value(rolling.MaxUnavailable, false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, wanted(d))
}

// newSetSize is what the new set may grow to, given all sets. It never shrinks here.
func newSetSize(d *appsv1.Deployment, all []*appsv1.ReplicaSet, fresh *appsv1.ReplicaSet) int32 {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return wanted(d)
	}
	surge, _ := bounds(d)
	room := wanted(d) + surge - total(all)
	if room <= 0 {
		return replicas(fresh)
	}
	return replicas(fresh) + min(room, wanted(d)-replicas(fresh))
}

// least is how many pods must be available at any time of a rollout.
func least(d *appsv1.Deployment) int32 {
	_, unavailable := bounds(d)
	return wanted(d) - unavailable
}

// spare is how many pods of the old sets may go, when those of the new set that are not available yet are to come first.
func spare(d *appsv1.Deployment, all []*appsv1.ReplicaSet, fresh *appsv1.ReplicaSet) int32 {
	return total(all) - least(d) - (replicas(fresh) - fresh.Status.AvailableReplicas)
}

// available adds up the pods that the sets report available.
func available(sets []*appsv1.ReplicaSet) (sum int32) {
	for _, set := range sets {
		sum += set.Status.AvailableReplicas
	}
	return sum
}

// proportion is the change of a set when a deployment with several running sets is scaled: the set keeps its part of the
// whole, rounded, and never takes more than is left to distribute. target is the deployment's new size, surge included, and
// annotated what that was when the set was last scaled.
func proportion(size, target, annotated, toAdd, added int32) int32 {
	share := -size
	switch {
	case toAdd == added, target != 0 && annotated == 0:
		return 0
	case target != 0:
		share = int32(math.Round(float64(size)*float64(target)/float64(annotated))) - size
	}
	if toAdd > 0 {
		return min(share, toAdd-added)
	}
	return max(share, toAdd-added)
}

// byCreation orders sets from oldest to newest.
func byCreation(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	sorted := slices.Clone(sets)
	slices.SortStableFunc(sorted, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return sorted
}

// bySize orders sets for scaling: the largest first; among equals the newest first when growing, the oldest when shrinking.
func bySize(sets []*appsv1.ReplicaSet, growing bool) []*appsv1.ReplicaSet {
	sorted := byCreation(sets)
	if growing {
		slices.Reverse(sorted)
	}
	slices.SortStableFunc(sorted, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(replicas(b), replicas(a)) })
	return sorted
}

// revision is the number of a set in the history, 0 when it has none.
func revision(set *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(set.Annotations[revisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func annotatedNumber(set *appsv1.ReplicaSet, name string) (int32, bool) {
	n, err := strconv.ParseInt(set.Annotations[name], 10, 32)
	return int32(n), err == nil
}

func withReplicas(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(sets), func(s *appsv1.ReplicaSet) bool { return replicas(s) == 0 })
}

// surplus returns the sets beyond the newest limit revisions that can be deleted: nothing runs in them, and nothing will.
func surplus(old []*appsv1.ReplicaSet, limit int) []*appsv1.ReplicaSet {
	alive := slices.DeleteFunc(byCreation(old), func(s *appsv1.ReplicaSet) bool { return s.DeletionTimestamp != nil })
	slices.SortStableFunc(alive, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(revision(a), revision(b)) })
	return slices.DeleteFunc(alive[:max(0, len(alive)-limit)], func(s *appsv1.ReplicaSet) bool {
		return replicas(s) != 0 || s.Status.Replicas != 0 || s.Generation > s.Status.ObservedGeneration
	})
}

// saturated says whether the set is all the deployment wants, running.
func saturated(d *appsv1.Deployment, set *appsv1.ReplicaSet) bool {
	if set == nil {
		return false
	}
	desired, ok := annotatedNumber(set, desiredAnnotation)
	return ok && replicas(set) == wanted(d) && desired == wanted(d) && set.Status.AvailableReplicas == wanted(d)
}
