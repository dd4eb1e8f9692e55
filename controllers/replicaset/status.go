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
)

// updateStatus writes what the set has. wait is when a ready pod becomes available next, 0 when none will.
func (c *Controller) updateStatus(ctx context.Context, set *appsv1.ReplicaSet, has counts, failed error) (wait time.Duration, err error) {
	status, wait := newStatus(set, has), has.next
	setFailure(&status, set, has.active, failed)
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

func newStatus(set *appsv1.ReplicaSet, has counts) appsv1.ReplicaSetStatus {
	status := *set.Status.DeepCopy()
	terminating := int32(has.terminating)
	status.Replicas, status.FullyLabeledReplicas = int32(has.active), int32(has.labeled)
	status.ReadyReplicas, status.AvailableReplicas = int32(has.ready), int32(has.available)
	status.TerminatingReplicas = &terminating
	status.ObservedGeneration = set.Generation
	return status
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
