package replicaset

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/controllers/internal/podfacts"
)

// victims chooses the pods that are missed least, in upstream's order (kubernetes/pkg/controller, ActivePodsWithRanks):
// without a node, not yet running, not ready, cheap to delete by annotation, on a node with many relatives, ready for a
// shorter time (by powers of two, so that small differences do not matter), often restarted, young.
func victims(pods []podfacts.Facts, related map[string]int, count int, now time.Time) []podfacts.Facts {
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b podfacts.Facts) int {
		return cmp.Or(
			boolFirst(a.Node == "", b.Node == ""),
			cmp.Compare(phaseRank(a), phaseRank(b)),
			boolFirst(!a.Ready, !b.Ready),
			cmp.Compare(a.DeletionCost, b.DeletionCost),
			cmp.Compare(related[b.Node], related[a.Node]),
			cmp.Compare(readyMagnitude(now, a), readyMagnitude(now, b)),
			cmp.Compare(b.Restarts, a.Restarts),
			cmp.Compare(magnitude(now, a.Created), magnitude(now, b.Created)),
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

func phaseRank(pod podfacts.Facts) int {
	switch pod.Phase {
	case corev1.PodPending, "":
		return 0
	case corev1.PodRunning:
		return 2
	}
	return 1
}

func readyMagnitude(now time.Time, pod podfacts.Facts) int {
	if !pod.Ready || !pod.HasTime {
		return -1
	}
	return magnitude(now, time.Unix(pod.ReadySince, 0))
}

// magnitude sorts ages into powers of two of their nanoseconds, as upstream does; what has not begun is youngest.
func magnitude(now, since time.Time) int {
	age := now.Sub(since)
	if since.IsZero() || age <= 0 {
		return -1
	}
	return int(math.Log2(float64(age)))
}
