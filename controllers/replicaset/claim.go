package replicaset

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer"
)

// claim returns the pods that belong to a set, after adopting those that should and letting go of those that should not.
func (c *Controller) claim(ctx context.Context, set *appsv1.ReplicaSet) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	owned, err := c.pods.ByIndex(controllerIndex, string(set.UID))
	if err != nil {
		return nil, err
	}
	pods := owned[:0]
	for _, pod := range owned {
		if selector.Matches(labels.Set(pod.Labels)) {
			pods = append(pods, pod)
			continue
		}
		if set.DeletionTimestamp == nil && pod.DeletionTimestamp == nil {
			if err := c.release(ctx, set, pod); err != nil {
				return nil, fmt.Errorf("release pod %s: %w", pod.Name, err)
			}
		}
	}
	if set.DeletionTimestamp != nil || selector.Empty() {
		return pods, nil
	}
	checked := false
	for _, o := range c.podInformer.Indexer().List(set.Namespace) {
		if _, taken := o.Controller(); taken || !selector.Matches(o.Labels()) {
			continue
		}
		pod, err := informer.As[*corev1.Pod](o)
		if err != nil {
			return nil, err
		}
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if !checked { // the cache may show a set that has been deleted, or another of its name
			if err := c.stillWanted(ctx, set); err != nil {
				return nil, err
			}
			checked = true
		}
		adopted, err := c.adopt(ctx, set, pod)
		if err != nil {
			return nil, fmt.Errorf("adopt pod %s: %w", pod.Name, err)
		}
		if adopted != nil {
			pods = append(pods, adopted)
		}
	}
	return pods, nil
}

func (c *Controller) stillWanted(ctx context.Context, set *appsv1.ReplicaSet) error {
	fresh, err := c.client.AppsV1().ReplicaSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if fresh.UID != set.UID || fresh.DeletionTimestamp != nil {
		return fmt.Errorf("replica set %s/%s is gone or going", set.Namespace, set.Name)
	}
	return nil
}

// adopt makes the set the pod's controller; nil when the pod is gone or somebody else was faster.
func (c *Controller) adopt(ctx context.Context, set *appsv1.ReplicaSet, pod *corev1.Pod) (*corev1.Pod, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             pod.UID,
		"ownerReferences": []metav1.OwnerReference{*metav1.NewControllerRef(set, Kind)},
	}})
	if err != nil {
		return nil, err
	}
	adopted, err := c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
		return nil, nil
	}
	return adopted, err
}

func (c *Controller) release(ctx context.Context, set *appsv1.ReplicaSet, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             pod.UID,
		"ownerReferences": []map[string]any{{"$patch": "delete", "uid": set.UID}},
	}})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
