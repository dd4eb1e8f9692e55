package nodelifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/informer"
	"vigil/internal/panics"
)

// collectPods deletes pods that nobody else will, until ctx ends: those of Nodes that are gone; those that are being deleted and
// never had a node, or are on one that is out of service; and the oldest of too many that have ended.
func (c *Controller) collectPods(ctx context.Context) error {
	ticker := time.NewTicker(c.timing.gcPeriod)
	defer ticker.Stop()
	missing := map[string]time.Time{} // nodes that pods name and that do not exist, since when
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-c.nodeGone:
		case <-wait.C:
		}
		next, err := panics.Call(c.logger, panics.Reconcile, func() (time.Duration, error) { return c.collectPodsOnce(ctx, missing, time.Now()) })
		if err != nil && ctx.Err() == nil {
			c.logger.Warn("the controller could not delete all pods that nobody else deletes; it tries again", "error", err)
		}
		if next > 0 {
			wait.Reset(next)
		}
	}
}

// collectPodsOnce returns when the next quarantine ends, 0 when there is none.
func (c *Controller) collectPodsOnce(ctx context.Context, missing map[string]time.Time, now time.Time) (next time.Duration, err error) {
	for name := range missing {
		if _, ok := c.nodes.Informer().Indexer().Get("", name); ok {
			delete(missing, name)
		}
	}
	var errs []error
	indexer := c.pods.Informer().Indexer()
	named := indexer.IndexValues(nodeIndex)
	for _, node := range named {
		if _, ok := c.nodes.Informer().Indexer().Get("", node); ok {
			continue
		}
		since, ok := missing[node]
		if !ok {
			missing[node], since = now, now
		}
		if left := since.Add(c.timing.quarantine).Sub(now); left > 0 {
			if next == 0 || left < next {
				next = left
			}
			continue
		}
		errs = append(errs, c.collectOrphans(ctx, node))
	}
	for name := range missing {
		if !slices.Contains(named, name) {
			delete(missing, name)
		}
	}
	errs = append(errs, c.collectDeleted(ctx), c.collectFinished(ctx))
	return next, errors.Join(errs...)
}

// collectOrphans deletes the pods of a Node that is gone.
func (c *Controller) collectOrphans(ctx context.Context, node string) error {
	_, err := c.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err // it is there after all, or nobody knows
	}
	pods, err := c.pods.ByIndex(nodeIndex, node)
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range pods {
		why := corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC",
			Message: "PodGC: node no longer exists", LastTransitionTime: metav1.Now().Rfc3339Copy(),
		}
		c.logger.Info("the controller deletes a pod whose node is gone", "pod", pod.Namespace+"/"+pod.Name, "node", node)
		errs = append(errs, c.failAndDelete(ctx, pod, why))
	}
	return errors.Join(errs...)
}

// failAndDelete deletes a pod at once, after making it Failed for those who count failures, and saying why if why has a type.
func (c *Controller) failAndDelete(ctx context.Context, pod *corev1.Pod, why corev1.PodCondition) error {
	if !finished(pod) {
		if err := c.setPodCondition(ctx, pod, corev1.PodFailed, why); err != nil {
			return fmt.Errorf("fail pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if err := c.deletePod(ctx, pod, new(int64)); err != nil {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// collectDeleted ends the deletion of pods whose kubelet will not: there is none, or its node is out of service. Finalizers may hold
// what remains; those who wait for the pod's end see that it has failed.
func (c *Controller) collectDeleted(ctx context.Context) error {
	deleting, err := c.pods.Informer().Indexer().ByIndex(deletingIndex, "true")
	if err != nil {
		return err
	}
	abandoned := map[string]bool{"": true} // nodes whose kubelets end no pods
	var errs []error
	for _, o := range deleting {
		var node string
		if on := nodeOf(nil, o); len(on) > 0 {
			node = on[0]
		}
		gone, known := abandoned[node]
		if !known {
			gone = c.outOfService(node)
			abandoned[node] = gone
		}
		if !gone { // not even decoded: of most pods their kubelets see to it
			continue
		}
		pod, err := informer.As[*corev1.Pod](o)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case len(pod.Finalizers) > 0 && finished(pod) && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0:
			continue // all is said
		}
		c.logger.Info("the controller deletes a pod that no kubelet ends", "pod", pod.Namespace+"/"+pod.Name, "node", pod.Spec.NodeName)
		errs = append(errs, c.failAndDelete(ctx, pod, corev1.PodCondition{}))
	}
	return errors.Join(errs...)
}

// outOfService says whether a person has tainted a node that is not ready as out of service: what ran there does not run any more.
func (c *Controller) outOfService(name string) bool {
	n, err := c.nodes.Get("", name)
	return err == nil && ready(n) != corev1.ConditionTrue &&
		slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// collectFinished deletes pods that have ended when there are more than --terminated-pod-gc-threshold, evicted ones first, then
// the oldest.
func (c *Controller) collectFinished(ctx context.Context) error {
	if c.config.TerminatedPodGCThreshold < 0 {
		return nil
	}
	indexer := c.pods.Informer().Indexer()
	count := 0
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		ended, err := indexer.ByIndex(phaseIndex, string(phase))
		if err != nil {
			return err
		}
		count += len(ended)
	}
	if count <= c.config.TerminatedPodGCThreshold {
		return nil
	}
	var finished []*corev1.Pod
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		ended, err := c.pods.ByIndex(phaseIndex, string(phase))
		if err != nil {
			return err
		}
		finished = append(finished, ended...)
	}
	var errs []error
	for _, pod := range oldest(finished, len(finished)-c.config.TerminatedPodGCThreshold) {
		errs = append(errs, c.deletePod(ctx, pod, new(int64)))
	}
	return errors.Join(errs...)
}

// oldest returns the count pods that are missed least.
func oldest(pods []*corev1.Pod, count int) []*corev1.Pod {
	rank := func(p *corev1.Pod) int {
		if p.Status.Reason == "Evicted" {
			return 0
		}
		return 1
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pods[:max(0, min(count, len(pods)))]
}
