package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
	"vigil/scheduler/queue"
)

// waits says whether a pod must wait for others before it can be bound.
func (p *profile) waits(d *decision, pod *nodecache.Pod) bool {
	if len(p.permits) > 0 {
		return true
	}
	for _, plugin := range p.preBinds {
		if plugin.PreBindPreFlight(d.state, pod, d.node).Code() != framework.Skip {
			return true
		}
	}
	return false
}

// prepare waits until a pod may be bound and has what it needs. A pod that may not, or cannot, goes back to the queue.
func (s *Scheduler) prepare(ctx context.Context, entry *queue.Entry, d *decision) (ready bool) {
	pod := entry.Pod
	profile := s.profileOf(pod)
	defer func() {
		if !ready { // also after a panic
			profile.unreserve(d, pod)
		}
	}()
	err := profile.prepare(ctx, d, pod)
	if err == nil {
		return true
	}
	s.undo(entry)
	if ctx.Err() == nil {
		s.config.Logger.Info("the scheduler could not prepare a pod's binding; the pod is scheduled again", "namespace", pod.Namespace, "pod", pod.Pod.Name, "node", d.node.Name, "error", err)
		profile.recorder.Event(pod.Pod, corev1.EventTypeWarning, "FailedScheduling", err.Error())
	}
	return false
}

func (p *profile) prepare(ctx context.Context, d *decision, pod *nodecache.Pod) error {
	for _, plugin := range p.permits {
		if status := plugin.Permit(ctx, d.state, pod, d.node); status != nil {
			return refusal("Permit", plugin, status)
		}
	}
	for _, plugin := range p.preBinds {
		if plugin.PreBindPreFlight(d.state, pod, d.node).Code() == framework.Skip {
			continue
		}
		if status := plugin.PreBind(ctx, d.state, pod, d.node); status != nil {
			return refusal("PreBind", plugin, status)
		}
	}
	return nil
}

// undo takes an assumption back and has the pod tried again; one that is gone is forgotten then.
func (s *Scheduler) undo(entry *queue.Entry) {
	s.cache.Forget(entry.Pod.UID)
	s.queue.Happened(framework.PodRemoved) // the room is free again
	s.queue.Retry(entry)
	s.metrics.failed()
}

// bindTimeout is how long a binding may take: a decision that was begun is finished, also while the scheduler ends.
const bindTimeout = 30 * time.Second

// bind writes the decision. A pod that could not be bound goes back to the queue.
func (s *Scheduler) bind(ctx context.Context, entry *queue.Entry, d *decision) {
	pod := entry.Pod
	profile := s.profileOf(pod)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bindTimeout)
	defer cancel()
	bound := false
	defer func() {
		if !bound { // also after a panic
			profile.unreserve(d, pod)
		}
	}()
	err := profile.bind(ctx, d, pod)
	if err == nil {
		bound = true
		s.queue.Done(entry)
		s.metrics.bound(entry)
		profile.recorder.Eventf(pod.Pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned %s to %s", pod.Name, d.node.Name)
		profile.tellUnheeded(pod.Pod)
		return
	}
	if apierrors.IsNotFound(err) {
		s.cache.Forget(pod.UID)
		s.queue.Happened(framework.PodRemoved) // the room is free again
		s.queue.Done(entry)
		return
	}
	s.undo(entry)
	s.config.Logger.Warn("the scheduler could not bind a pod to a node; the pod is scheduled again", "namespace", pod.Namespace, "pod", pod.Pod.Name, "node", d.node.Name, "error", err)
	profile.recorder.Eventf(pod.Pod, corev1.EventTypeWarning, "FailedScheduling", "bind %s to %s: %v", pod.Name, d.node.Name, err)
}

// bind asks the plug-ins to bind the pod, until one does.
func (p *profile) bind(ctx context.Context, d *decision, pod *nodecache.Pod) error {
	for _, plugin := range p.binds {
		switch status := plugin.Bind(ctx, d.state, pod, d.node); status.Code() {
		case framework.Success:
			return nil
		case framework.Skip:
		case framework.Error:
			return status.Err()
		default:
			return refusal("Bind", plugin, status)
		}
	}
	return fmt.Errorf("no plug-in of profile %s binds the pod", p.Name)
}

// defaultBinder binds through the API server.
type defaultBinder struct{ client kubernetes.Interface }

// Name implements framework.Plugin.
func (defaultBinder) Name() string { return "DefaultBinder" }

// Bind implements framework.BindPlugin.
func (b defaultBinder) Bind(ctx context.Context, _ *framework.CycleState, pod *nodecache.Pod, node *corev1.Node) *framework.Status {
	return framework.AsStatus(b.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node.Name},
	}, metav1.CreateOptions{}))
}
