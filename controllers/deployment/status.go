package deployment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// status adds up what the sets report. fresh may be nil.
func (r *rollout) status(fresh *appsv1.ReplicaSet) appsv1.DeploymentStatus {
	status := appsv1.DeploymentStatus{
		ObservedGeneration: r.d.Generation,
		CollisionCount:     r.d.Status.CollisionCount,
		Conditions:         slices.Clone(r.d.Status.Conditions),
	}
	var asked, terminating int32
	for _, set := range r.sets {
		asked += replicas(set)
		status.Replicas += set.Status.Replicas
		status.ReadyReplicas += set.Status.ReadyReplicas
		status.AvailableReplicas += set.Status.AvailableReplicas
		if set.Status.TerminatingReplicas != nil {
			terminating += *set.Status.TerminatingReplicas
		}
	}
	if fresh != nil {
		status.UpdatedReplicas = r.current(fresh).Status.Replicas
	}
	status.TerminatingReplicas = &terminating
	status.UnavailableReplicas = max(0, asked-status.AvailableReplicas)
	if status.AvailableReplicas >= least(r.d) {
		setCondition(&status.Conditions, appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability.")
	} else {
		setCondition(&status.Conditions, appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
	}
	return status
}

// complete says whether everything runs the new template and nothing else does.
func (r *rollout) complete(s appsv1.DeploymentStatus) bool {
	return s.UpdatedReplicas == wanted(r.d) && s.Replicas == wanted(r.d) && s.AvailableReplicas == wanted(r.d) && s.ObservedGeneration >= r.d.Generation
}

// writeProgress writes the status with the condition Progressing, which says how the rollout goes.
func (r *rollout) writeProgress(ctx context.Context) error {
	fresh, _ := r.split()
	status := r.status(fresh)
	if r.hasDeadline() {
		r.progress(&status, fresh)
	} else {
		status.Conditions = slices.DeleteFunc(status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == appsv1.DeploymentProgressing })
	}
	r.copyFailure(&status, fresh)
	return r.writeStatusWith(ctx, status)
}

// hasDeadline says whether the rollout's progress is watched. The greatest number stands for no deadline.
func (r *rollout) hasDeadline() bool {
	seconds := r.d.Spec.ProgressDeadlineSeconds
	return seconds != nil && *seconds != math.MaxInt32
}

func (r *rollout) progress(status *appsv1.DeploymentStatus, fresh *appsv1.ReplicaSet) {
	name := fmt.Sprintf("Deployment %q", r.d.Name)
	if fresh != nil {
		name = fmt.Sprintf("ReplicaSet %q", fresh.Name)
	}
	current := find(status.Conditions, appsv1.DeploymentProgressing)
	done := current != nil && current.Reason == "NewReplicaSetAvailable" && status.Replicas == status.UpdatedReplicas
	if done { // a finished rollout stays finished, even when pods fail later
		return
	}
	switch {
	case r.complete(*status):
		setCondition(&status.Conditions, appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable", name+" has successfully progressed.")
	case r.progressed(status):
		condition := appsv1.DeploymentCondition{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "ReplicaSetUpdated", Message: name + " is progressing.",
			LastUpdateTime: metav1.Now().Rfc3339Copy(), LastTransitionTime: metav1.Now().Rfc3339Copy(),
		}
		if current != nil && current.Status == corev1.ConditionTrue {
			condition.LastTransitionTime = current.LastTransitionTime
		}
		replace(&status.Conditions, condition) // also when nothing but the time changes: the deadline counts from here
	case r.timedOut(current):
		setCondition(&status.Conditions, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded", name+" has timed out progressing.")
	}
	if current = find(status.Conditions, appsv1.DeploymentProgressing); current != nil && current.Reason != "ProgressDeadlineExceeded" && !r.complete(*status) {
		r.wait = max(time.Second, time.Until(current.LastUpdateTime.Add(r.deadline()))+time.Second)
	}
}

func (r *rollout) deadline() time.Duration {
	return time.Duration(*r.d.Spec.ProgressDeadlineSeconds) * time.Second
}

// progressed says whether the rollout is further than the status that is written down.
func (r *rollout) progressed(status *appsv1.DeploymentStatus) bool {
	before := r.d.Status
	oldNow, oldBefore := status.Replicas-status.UpdatedReplicas, before.Replicas-before.UpdatedReplicas
	return status.UpdatedReplicas > before.UpdatedReplicas || oldNow < oldBefore ||
		status.ReadyReplicas > before.ReadyReplicas || status.AvailableReplicas > before.AvailableReplicas
}

func (r *rollout) timedOut(current *appsv1.DeploymentCondition) bool {
	switch {
	case current == nil, current.Reason == "NewReplicaSetAvailable":
		return false
	case current.Reason == "ProgressDeadlineExceeded":
		return true
	}
	return time.Now().After(current.LastUpdateTime.Add(r.deadline()))
}

// copyFailure shows the new set's condition ReplicaFailure (else any old set's) on the deployment.
func (r *rollout) copyFailure(status *appsv1.DeploymentStatus, fresh *appsv1.ReplicaSet) {
	failure := func(set *appsv1.ReplicaSet) *appsv1.ReplicaSetCondition {
		for i := range set.Status.Conditions {
			if c := &set.Status.Conditions[i]; c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				return c
			}
		}
		return nil
	}
	var found *appsv1.ReplicaSetCondition
	if fresh != nil {
		found = failure(r.current(fresh))
	}
	for _, set := range r.sets {
		if found == nil {
			found = failure(set)
		}
	}
	if found != nil {
		setCondition(&status.Conditions, appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, found.Reason, found.Message)
		return
	}
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == appsv1.DeploymentReplicaFailure })
}

// reportPause notes in the condition Progressing that a rollout was paused or goes on, so that the deadline does not count
// the pause.
func (r *rollout) reportPause(ctx context.Context) error {
	if !r.hasDeadline() {
		return nil
	}
	current := r.condition(appsv1.DeploymentProgressing)
	if current != nil && current.Reason == "ProgressDeadlineExceeded" {
		return nil
	}
	paused := current != nil && current.Reason == "DeploymentPaused"
	switch {
	case r.d.Spec.Paused && !paused:
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentPaused", "Deployment is paused")
	case !r.d.Spec.Paused && paused:
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed")
	default:
		return nil
	}
	written, err := r.c.client.AppsV1().Deployments(r.d.Namespace).UpdateStatus(ctx, r.d, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.d = written
	return nil
}

func (r *rollout) writeStatus(ctx context.Context, fresh *appsv1.ReplicaSet) error {
	if fresh == nil {
		fresh, _ = r.split()
	}
	return r.writeStatusWith(ctx, r.status(fresh))
}

// writeStatusWith writes the status, and with it the revision, if one of them differs from what the cache shows.
func (r *rollout) writeStatusWith(ctx context.Context, status appsv1.DeploymentStatus) error {
	shown, err := r.c.deployments.Get(r.d.Namespace, r.d.Name)
	if err == nil && shown.ResourceVersion == r.d.ResourceVersion && apiequality.Semantic.DeepEqual(shown.Status, status) &&
		shown.Annotations[revisionAnnotation] == r.d.Annotations[revisionAnnotation] {
		return nil
	}
	updated := r.d.DeepCopy()
	updated.Status = status
	_, err = r.c.client.AppsV1().Deployments(updated.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	return err
}

func (r *rollout) condition(kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	return find(r.d.Status.Conditions, kind)
}

func (r *rollout) setCondition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) {
	setCondition(&r.d.Status.Conditions, kind, status, reason, message)
}

func find(conditions []appsv1.DeploymentCondition, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// setCondition changes or adds a condition, which then stands last. It stays untouched when status and reason are the same, times
// included.
func setCondition(conditions *[]appsv1.DeploymentCondition, kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) {
	now := metav1.Now().Rfc3339Copy()
	want := appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, Message: message, LastUpdateTime: now, LastTransitionTime: now}
	if have := find(*conditions, kind); have != nil && have.Status == status {
		if have.Reason == reason {
			return
		}
		want.LastTransitionTime = have.LastTransitionTime
	}
	replace(conditions, want)
}

// replace puts a condition in the place of the one of its type, at the end.
func replace(conditions *[]appsv1.DeploymentCondition, with appsv1.DeploymentCondition) {
	others := slices.DeleteFunc(slices.Clone(*conditions), func(c appsv1.DeploymentCondition) bool { return c.Type == with.Type })
	*conditions = append(others, with)
}
