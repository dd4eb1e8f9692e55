package replicaset

import (
	"cmp"
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// scale creates or deletes pods until there are as many as the set wants. Of several errors it returns one: the condition
// ReplicaFailure shows its text to people.
func (c *Controller) scale(ctx context.Context, set *appsv1.ReplicaSet, active []*corev1.Pod) error {
	diff := len(active) - int(replicas(set))
	switch {
	case diff < 0:
		return c.create(ctx, set, min(-diff, burst))
	case diff > 0:
		related, err := c.relatedPods(set)
		if err != nil {
			return err
		}
		return c.remove(ctx, set, victims(active, related, min(diff, burst), time.Now()))
	}
	return nil
}

func replicas(set *appsv1.ReplicaSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// create makes pods in batches of 1, 2, 4 ..., and stops after a batch in which one failed: when a quota or a webhook
// refuses, it refuses all, and asking a thousand times would help nobody.
func (c *Controller) create(ctx context.Context, set *appsv1.ReplicaSet, count int) error {
	for batch := 1; count > 0; batch *= 2 {
		batch = min(batch, count)
		errs := make([]error, batch)
		var group sync.WaitGroup
		for i := range batch {
			group.Go(func() { errs[i] = c.createOne(ctx, set) })
		}
		group.Wait()
		if err := cmp.Or(errs...); err != nil {
			return err
		}
		count -= batch
	}
	return nil
}

func (c *Controller) createOne(ctx context.Context, set *appsv1.ReplicaSet) error {
	pod := fromTemplate(set) // one for each: encoding it writes into it
	made, err := c.client.CoreV1().Pods(set.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the set will go, too
	}
	if err != nil {
		c.recorder.Eventf(set, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		return err
	}
	c.wrote.Wrote(set.UID, made.ResourceVersion)
	c.recorder.Eventf(set, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", made.Name)
	return nil
}

func fromTemplate(set *appsv1.ReplicaSet) *corev1.Pod {
	template := set.Spec.Template.DeepCopy()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       set.Namespace,
			GenerateName:    set.Name + "-",
			Labels:          template.Labels,
			Annotations:     template.Annotations,
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, Kind)},
		},
		Spec: template.Spec,
	}
}

func (c *Controller) remove(ctx context.Context, set *appsv1.ReplicaSet, pods []*corev1.Pod) error {
	errs := make([]error, len(pods))
	var group sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i, pod := range pods {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = c.removeOne(ctx, set, pod)
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

func (c *Controller) removeOne(ctx context.Context, set *appsv1.ReplicaSet, pod *corev1.Pod) error {
	err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		c.recorder.Eventf(set, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		return err
	}
	c.noteDeleted(set.UID, pod.UID)
	if err == nil {
		c.recorder.Eventf(set, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", pod.Name)
	}
	return nil
}

// relatedPods counts, by node, the active pods of all sets that have the same controller: during a rolling update pods
// are best taken away where their successors already run.
func (c *Controller) relatedPods(set *appsv1.ReplicaSet) (map[string]int, error) {
	sets := []types.UID{set.UID}
	if owner := metav1.GetControllerOf(set); owner != nil {
		siblings, err := c.setInformer.Indexer().ByIndex(controllerIndex, string(owner.UID))
		if err != nil {
			return nil, err
		}
		for _, sibling := range siblings {
			if sibling.UID() != set.UID {
				sets = append(sets, sibling.UID())
			}
		}
	}
	onNode := map[string]int{}
	for _, uid := range sets {
		pods, err := c.pods.ByIndex(controllerIndex, string(uid))
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
				onNode[pod.Spec.NodeName]++
			}
		}
	}
	return onNode, nil
}
