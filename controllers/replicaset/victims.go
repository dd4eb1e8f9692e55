package replicaset

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// victims chooses the pods that are missed least, in upstream's order (kubernetes/pkg/controller, ActivePodsWithRanks):
// without a node, not yet running, not ready, cheap to delete by annotation, on a node with many relatives, ready for a
// shorter time (by powers of two, so that small differences do not matter), often restarted, young.
func victims(pods []*corev1.Pod, related map[string]int, count int, now time.Time) []*corev1.Pod {
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b *corev1.Pod) int {
		return cmp.Or(
			boolFirst(a.Spec.NodeName == "", b.Spec.NodeName == ""),
			cmp.Compare(phaseRank(a), phaseRank(b)),
			boolFirst(!ready(a), !ready(b)),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(related[b.Spec.NodeName], related[a.Spec.NodeName]),
			cmp.Compare(readyMagnitude(now, a), readyMagnitude(now, b)),
			cmp.Compare(restarts(b), restarts(a)),
			cmp.Compare(magnitude(now, a.CreationTimestamp.Time), magnitude(now, b.CreationTimestamp.Time)),
			cmp.Compare(a.UID, b.UID),
		)
	})
	return sorted[:min(count, len(sorted))]
}

func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func phaseRank(pod *corev1.Pod) int {
	switch pod.Status.Phase {
	case corev1.PodPending, "":
		return 0
	case corev1.PodRunning:
		return 2
	}
	return 1
}

func ready(pod *corev1.Pod) bool {
	_, ok := readySince(pod)
	return ok
}

// readySince says whether a pod is ready and since when: the zero time if whoever made it ready did not say.
func readySince(pod *corev1.Pod) (since time.Time, ready bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

func readyMagnitude(now time.Time, pod *corev1.Pod) int {
	since, _ := readySince(pod)
	return magnitude(now, since)
}

func deletionCost(pod *corev1.Pod) int64 {
	cost, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return cost
}

// magnitude sorts ages into powers of two of their nanoseconds, as upstream does; what has not begun is youngest.
func magnitude(now, since time.Time) int {
	age := now.Sub(since)
	if since.IsZero() || age <= 0 {
		return -1
	}
	return int(math.Log2(float64(age)))
}

func restarts(pod *corev1.Pod) int32 {
	var highest int32
	for _, s := range pod.Status.ContainerStatuses {
		highest = max(highest, s.RestartCount)
	}
	return highest
}
