package replicaset

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// updateStatus writes what the set has. wait is when a ready pod becomes available next, 0 when none will.
func (c *Controller) updateStatus(ctx context.Context, set *appsv1.ReplicaSet, active []*corev1.Pod, terminating int32, failed error) (wait time.Duration, err error) {
	status, wait := newStatus(set, active, terminating, time.Now())
	setFailure(&status, set, len(active), failed)
	if apiequality.Semantic.DeepEqual(set.Status, status) {
		return wait, nil
	}
	updated := set.DeepCopy()
	updated.Status = status
	_, err = c.client.AppsV1().ReplicaSets(set.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return recheck, nil // the newer version is on its way and will be looked at
	}
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return wait, err
}

func newStatus(set *appsv1.ReplicaSet, active []*corev1.Pod, terminating int32, now time.Time) (status appsv1.ReplicaSetStatus, wait time.Duration) {
	status = *set.Status.DeepCopy()
	status.Replicas = int32(len(active))
	status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0
	status.TerminatingReplicas = &terminating
	status.ObservedGeneration = set.Generation
	template := labels.Set(set.Spec.Template.Labels).AsSelectorPreValidated()
	minReady := time.Duration(set.Spec.MinReadySeconds) * time.Second
	for _, pod := range active {
		if template.Matches(labels.Set(pod.Labels)) {
			status.FullyLabeledReplicas++
		}
		since, ok := readySince(pod)
		if !ok {
			continue
		}
		status.ReadyReplicas++
		switch left := minReady - now.Sub(since); {
		case minReady == 0, !since.IsZero() && left <= 0:
			status.AvailableReplicas++
		case !since.IsZero() && (wait == 0 || left < wait):
			wait = left
		}
	}
	return status, wait
}

// setFailure keeps the condition ReplicaFailure, which is there only while creating or deleting fails.
func setFailure(status *appsv1.ReplicaSetStatus, set *appsv1.ReplicaSet, active int, failed error) {
	at := slices.IndexFunc(status.Conditions, func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })
	if failed == nil {
		if at >= 0 {
			status.Conditions = slices.Delete(status.Conditions, at, at+1)
		}
		return
	}
	condition := appsv1.ReplicaSetCondition{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
		Message: failed.Error(), LastTransitionTime: metav1.Now().Rfc3339Copy(),
	}
	if active > int(replicas(set)) {
		condition.Reason = "FailedDelete"
	}
	if at < 0 {
		status.Conditions = append(status.Conditions, condition)
		return
	}
	if old := status.Conditions[at]; old.Status == condition.Status && old.Reason == condition.Reason {
		return
	}
	status.Conditions[at] = condition
}
