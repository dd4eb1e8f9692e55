package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/scheduler/nodecache"
	"vigil/scheduler/plugins"
	"vigil/scheduler/queue"
	"vigil/scheduler/volumes"
)

// cycle decides where one pod goes and assumes it there. When it fits nowhere the pod is told and put aside.
func (s *Scheduler) cycle(ctx context.Context, entry *queue.Entry) (d decision, ok bool) {
	began := time.Now()
	pod := entry.Pod
	if s.cache.Placed(pod.UID) { // a state from before its binding came late: it would compete with itself
		s.queue.Done(entry)
		return decision{}, false
	}
	d, err := s.decide(pod)
	if err == nil {
		if err := s.cache.Assume(pod, d.node); err != nil { // bound by somebody else meanwhile
			s.queue.Done(entry)
			return decision{}, false
		}
		d.binds = d.volumes != nil && d.volumes.Assume(d.object)
		s.metrics.cycle("scheduled", began)
		return d, true
	}
	s.metrics.cycle("unschedulable", began)
	helps := plugins.NodeAdded
	var misfit *misfitError
	if errors.As(err, &misfit) {
		helps |= misfit.helps
	}
	s.queue.Refuse(entry, helps)
	s.config.Recorder.Event(pod.Pod, corev1.EventTypeWarning, "FailedScheduling", err.Error())
	s.tell(ctx, pod, err)
	return decision{}, false
}

// decision is where a pod goes.
type decision struct {
	node    string
	object  *corev1.Node
	volumes *volumes.Plan // nil: the pod has no claims
	binds   bool          // the plan has something to bind first
}

type candidate struct {
	node   string
	object *corev1.Node
	pods   int // on the node
	raw    []int64
}

// decide finds the best node for a pod. It fails with a *misfitError when there is none.
func (s *Scheduler) decide(pod *nodecache.Pod) (decision, error) {
	misfit := &misfitError{reasons: map[string]int{}}
	var plan *volumes.Plan
	if len(pod.Claims) > 0 {
		var err error
		if plan, err = s.volumes.Plan(pod.Pod, s.cache.Users); err != nil {
			return decision{}, &misfitError{nodes: s.cache.Len(), anywhere: err.Error(), helps: plugins.StorageChanged}
		}
	}
	var candidates []candidate
	enough := 0
	visited, total := s.cache.Visit(s.start, func(node *nodecache.Node) bool {
		for i := range s.filters {
			if reasons := s.filters[i].Check(pod, node); len(reasons) > 0 {
				misfit.add(reasons, s.filters[i].Helps)
				return true
			}
		}
		if plan != nil {
			if reasons := plan.Fits(node.Node); len(reasons) > 0 {
				misfit.add(reasons, volumesHelp)
				return true
			}
		}
		c := candidate{node: node.Node.Name, object: node.Node, pods: len(node.Pods), raw: make([]int64, len(s.scores))}
		for i := range s.scores {
			c.raw[i] = s.scores[i].Of(pod, node)
		}
		candidates = append(candidates, c)
		return len(candidates) != enough
	}, func(total int) { enough = feasibleEnough(total) })
	if total > 0 {
		s.start = (s.start + visited) % total
	}
	misfit.nodes = total
	if len(candidates) == 0 {
		return decision{}, misfit
	}
	best := s.best(candidates)
	return decision{node: best.node, object: best.object, volumes: plan}, nil
}

// volumesHelp is what may help a pod that its claims keep from all nodes.
const volumesHelp = plugins.NodeAdded | plugins.NodeLabels | plugins.PodRemoved | plugins.StorageChanged

// feasibleEnough is how many nodes that would do are scored: all of up to 100, and a falling share of more, as upstream's
// percentageOfNodesToScore does.
func feasibleEnough(total int) int {
	const all = 100
	if total <= all {
		return total
	}
	percent := max(5, 50-total/125)
	return max(all, total*percent/100)
}

// best adds up the weighted scores. Of the best nodes it takes one with the fewest pods, drawn at random, so that pods that
// ask for next to nothing spread.
func (s *Scheduler) best(candidates []candidate) candidate {
	totals := make([]int64, len(candidates))
	for i, score := range s.scores {
		var highest int64
		for _, c := range candidates {
			highest = max(highest, c.raw[i])
		}
		for j, c := range candidates {
			value := c.raw[i]
			if score.Normalize {
				if highest > 0 {
					value = value * plugins.MaxScore / highest
				}
				if score.Reverse {
					value = plugins.MaxScore - value
				}
			}
			totals[j] += value * score.Weight
		}
	}
	chosen, ties := 0, 0
	for i := range candidates {
		switch better := cmp.Or(cmp.Compare(totals[i], totals[chosen]), cmp.Compare(candidates[chosen].pods, candidates[i].pods)); {
		case better > 0:
			chosen, ties = i, 1
		case better == 0:
			if ties++; rand.IntN(ties) == 0 {
				chosen = i
			}
		}
	}
	return candidates[chosen]
}

// bindVolumes has the claims of a pod bound, which may take long. A pod whose claims could not be bound goes back to the queue.
func (s *Scheduler) bindVolumes(ctx context.Context, entry *queue.Entry, d decision) bool {
	pod := entry.Pod
	err := d.volumes.Bind(ctx, func() bool {
		o, ok := s.pods.Indexer().Get(pod.Namespace, pod.Pod.Name)
		return ok && o.UID() == pod.UID
	})
	if err == nil {
		return true
	}
	d.volumes.Release()
	s.undo(entry)
	if ctx.Err() == nil {
		s.config.Logger.Info("volumes could not be bound", "namespace", pod.Namespace, "pod", pod.Pod.Name, "node", d.node, "error", err)
		s.config.Recorder.Eventf(pod.Pod, corev1.EventTypeWarning, "FailedScheduling", "running PreBind plugin \"VolumeBinding\": %v", err)
	}
	return false
}

// undo takes an assumption back and has the pod tried again; one that is gone is forgotten then.
func (s *Scheduler) undo(entry *queue.Entry) {
	s.cache.Forget(entry.Pod.UID)
	s.queue.Happened(plugins.PodRemoved) // the room is free again
	s.queue.Retry(entry)
	s.metrics.failed()
}

// bind writes the decision. A pod that could not be bound goes back to the queue.
func (s *Scheduler) bind(ctx context.Context, entry *queue.Entry, node string) {
	pod := entry.Pod
	ctx = context.WithoutCancel(ctx) // a decision that was begun is finished
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := s.config.Client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err == nil {
		s.queue.Done(entry)
		s.metrics.bound(entry)
		s.config.Recorder.Eventf(pod.Pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned %s to %s", pod.Name, node)
		return
	}
	s.cache.Forget(pod.UID)
	s.queue.Happened(plugins.PodRemoved) // the room is free again
	if apierrors.IsNotFound(err) {
		s.queue.Done(entry)
		return
	}
	s.queue.Retry(entry)
	s.metrics.failed()
	s.config.Logger.Warn("binding failed", "namespace", pod.Namespace, "pod", pod.Pod.Name, "node", node, "error", err)
	s.config.Recorder.Eventf(pod.Pod, corev1.EventTypeWarning, "FailedScheduling", "bind %s to %s: %v", pod.Name, node, err)
}

// tell writes the PodScheduled condition of a pod that fits nowhere, unless it says so already.
func (s *Scheduler) tell(ctx context.Context, pod *nodecache.Pod, reason error) {
	since := metav1.Now()
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			continue
		}
		if c.Reason == corev1.PodReasonUnschedulable && c.Message == reason.Error() {
			return
		}
		since = c.LastTransitionTime
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: reason.Error(), LastTransitionTime: since, ObservedGeneration: pod.Generation,
		}}},
	})
	if err != nil {
		s.config.Logger.Error("cannot encode pod condition", "error", err)
		return
	}
	_, err = s.config.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		s.config.Logger.Warn("cannot tell pod that it fits nowhere", "namespace", pod.Namespace, "pod", pod.Pod.Name, "error", err)
	}
}

// misfitError says why a pod fits nowhere: each reason with the number of nodes that gave it.
type misfitError struct {
	nodes    int
	anywhere string // why it fits nowhere whatever the nodes are; "": see reasons
	reasons  map[string]int
	helps    plugins.Event
}

func (e *misfitError) add(reasons []string, helps plugins.Event) {
	for _, reason := range reasons {
		e.reasons[reason]++
	}
	e.helps |= helps
}

// Error has upstream's form: "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable."
func (e *misfitError) Error() string {
	if e.nodes == 0 {
		return "no nodes available to schedule pods"
	}
	if e.anywhere != "" {
		return fmt.Sprintf("0/%d nodes are available: %s.", e.nodes, e.anywhere)
	}
	parts := make([]string, 0, len(e.reasons))
	for reason, count := range e.reasons {
		parts = append(parts, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(parts)
	return fmt.Sprintf("0/%d nodes are available: %s.", e.nodes, strings.Join(parts, ", "))
}
