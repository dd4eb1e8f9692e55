package core

import (
	corev1 "k8s.io/api/core/v1"

	"vigil/kinds"
)

// preparePodStatus keeps everything but the status and metadata. Owner references and the deletion time stay too:
// kubelets of old spoiled the former.
func preparePodStatus(obj, old kinds.Object) {
	pod, oldPod := obj.(*corev1.Pod), old.(*corev1.Pod)
	pod.Spec = oldPod.Spec
	pod.DeletionTimestamp = oldPod.DeletionTimestamp
	pod.OwnerReferences = oldPod.OwnerReferences
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = oldPod.Status.QOSClass
	}
	keepObservedGenerations(&pod.Status, &oldPod.Status)
}

// keepObservedGenerations puts back observed generations that a client left out because it does not know them.
func keepObservedGenerations(status, old *corev1.PodStatus) {
	if status.ObservedGeneration == 0 {
		status.ObservedGeneration = old.ObservedGeneration
	}
	// A type may stand there more than once; the first goes with the first.
	byType := map[corev1.PodConditionType][]int64{}
	for _, c := range old.Conditions {
		byType[c.Type] = append(byType[c.Type], c.ObservedGeneration)
	}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if known := byType[c.Type]; len(known) > 0 {
			byType[c.Type] = known[1:]
			if c.ObservedGeneration == 0 {
				c.ObservedGeneration = known[0]
			}
		}
	}
}
