package nodelifecycle

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/internal/podcondition"
)

// markPodsNotReady takes the pods of a node out of Services: nobody knows whether they still answer.
func (c *Controller) markPodsNotReady(ctx context.Context, node string) error {
	pods, err := c.pods.ByIndex(nodeIndex, node)
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range pods {
		if !podReady(pod) {
			continue
		}
		err := c.setPodCondition(ctx, pod, "", corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: now()})
		if err != nil {
			errs = append(errs, fmt.Errorf("mark pod %s/%s not ready: %w", pod.Namespace, pod.Name, err))
			continue
		}
		c.recorder.Event(pod, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	}
	return errors.Join(errs...)
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// setPodCondition puts a condition into a pod's status, and a phase unless that is "". A pod that is gone is no error.
func (c *Controller) setPodCondition(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, condition corev1.PodCondition) error {
	condition.ObservedGeneration = pod.Generation
	body, err := (&podcondition.Patch{UID: pod.UID, Have: pod.Status.Conditions, Set: condition, Phase: phase}).Encode()
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another pod has the name by now
		return nil
	}
	return err
}

// deletePod deletes this pod and no other of its name. grace in seconds; nil: as the pod asks.
func (c *Controller) deletePod(ctx context.Context, pod *corev1.Pod, grace *int64) error {
	options := metav1.DeleteOptions{GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
