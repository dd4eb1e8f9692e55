package scheduler

import (
	"cmp"
	"context"
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

	"vigil/internal/podcondition"
	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
	"vigil/scheduler/queue"
)

// cycle decides where one pod goes and reserves what it needs there. When it fits nowhere the pod is told and put aside.
func (s *Scheduler) cycle(ctx context.Context, entry *queue.Entry) (d *decision, ok bool) {
	began := time.Now()
	pod := entry.Pod
	if s.cache.Placed(pod.UID) { // a state from before its binding came late: it would compete with itself
		s.queue.Done(entry)
		return nil, false
	}
	profile := s.profileOf(pod)
	d, err := s.decide(ctx, profile, pod)
	if err == nil {
		if err := s.cache.Assume(pod, d.node.Name); err != nil { // bound by somebody else meanwhile
			s.queue.Done(entry)
			return nil, false
		}
		if err = profile.reserve(d, pod); err == nil {
			s.metrics.cycle("scheduled", began)
			return d, true
		}
		s.cache.Forget(pod.UID)
	}
	s.metrics.cycle("unschedulable", began)
	s.putAside(entry, err)
	profile.recorder.Event(pod.Pod, corev1.EventTypeWarning, "FailedScheduling", err.Error())
	s.tell(ctx, pod, err)
	return nil, false
}

// putAside has a pod wait for the events that may help it; one that met a failure is tried again after its backoff.
func (s *Scheduler) putAside(entry *queue.Entry, err error) {
	events := framework.NodeAdded
	var misfit *misfitError
	var refused *refusalError
	switch {
	case errors.As(err, &misfit):
		events |= misfit.helps
	case errors.As(err, &refused) && refused.status.IsRejected():
		events |= helps(refused.plugin)
	default:
		s.queue.Retry(entry)
		return
	}
	s.queue.Refuse(entry, events)
}

// profileOf is the profile of a pod in the queue, which has one; its spec.schedulerName never changes.
func (s *Scheduler) profileOf(pod *nodecache.Pod) *profile { return s.profiles[pod.Spec.SchedulerName] }

// decision is where a pod goes.
type decision struct {
	node  *corev1.Node
	state *framework.CycleState
}

// decide finds the best node for a pod. It fails with a *misfitError when there is none, and with a *refusalError when a plug-in fails.
func (s *Scheduler) decide(ctx context.Context, profile *profile, pod *nodecache.Pod) (*decision, error) {
	nodes, state := s.cache.Snapshot(), &framework.CycleState{}
	filters, err := s.preFilter(profile, state, pod, nodes)
	if err != nil {
		return nil, err
	}
	misfit := &misfitError{nodes: nodes.Len(), reasons: map[string]int{}}
	s.feasible = s.feasible[:0]
	enough, visited := profile.feasibleEnough(nodes.Len()), 0
	keep := len(profile.postFilters) > 0
	for node := range nodes.From(s.start) {
		visited++
		if by, status := filter(filters, state, pod, node); status != nil {
			if !status.IsRejected() {
				return nil, refusal("Filter", by, status)
			}
			misfit.add(node.Node.Name, by, status, keep)
			continue
		}
		if s.feasible = append(s.feasible, node); len(s.feasible) == enough {
			break
		}
	}
	if nodes.Len() > 0 {
		s.start = (s.start + visited) % nodes.Len()
	}
	if len(s.feasible) == 0 {
		profile.postFilter(ctx, state, pod, nodes, misfit)
		return nil, misfit
	}
	best := s.best(profile, state, pod)
	clear(s.feasible) // they would keep nodes that are gone
	return &decision{node: best, state: state}, nil
}

// preFilter asks the plug-ins that look at the pod once, and returns the filters that have something to say about it.
func (s *Scheduler) preFilter(profile *profile, state *framework.CycleState, pod *nodecache.Pod, nodes *nodecache.Snapshot) ([]framework.FilterPlugin, error) {
	s.filters = append(s.filters[:0], profile.filters...)
	for _, p := range profile.preFilters {
		switch status := p.PreFilter(state, pod, nodes); {
		case status == nil:
		case status.IsRejected():
			return nil, &misfitError{nodes: nodes.Len(), anywhere: status.Message(), helps: helps(p)}
		case status.Code() == framework.Skip:
			s.filters = slices.DeleteFunc(s.filters, func(f framework.FilterPlugin) bool { return f.Name() == p.Name() })
		default:
			return nil, refusal("PreFilter", p, status)
		}
	}
	return s.filters, nil
}

// filter returns the first refusal of a node and who it is from; nil when there is none.
func filter(filters []framework.FilterPlugin, state *framework.CycleState, pod *nodecache.Pod, node *nodecache.Node) (framework.FilterPlugin, *framework.Status) {
	for _, f := range filters {
		if status := f.Filter(state, pod, node); status != nil {
			return f, status
		}
	}
	return nil, nil
}

// helps are the events after which a pod that the plug-in has refused is tried again.
func helps(p framework.Plugin) framework.Event {
	if e, ok := p.(framework.EnqueuePlugin); ok {
		return e.EventsToRegister()
	}
	return framework.NodeAdded
}

// postFilter has plug-ins try to help a pod that fits nowhere. What they say is added to what the pod is told.
func (p *profile) postFilter(ctx context.Context, state *framework.CycleState, pod *nodecache.Pod, nodes *nodecache.Snapshot, misfit *misfitError) {
	for _, plugin := range p.postFilters {
		nominated, status := plugin.PostFilter(ctx, state, pod, nodes, misfit.refused)
		if text := status.Message(); text != "" {
			misfit.after = append(misfit.after, text)
		}
		if nominated != "" {
			return
		}
	}
}

// best adds up the weighted scores. Of the best nodes it takes one with the fewest pods, drawn at random, so that pods that
// ask for next to nothing spread.
func (s *Scheduler) best(profile *profile, state *framework.CycleState, pod *nodecache.Pod) *corev1.Node {
	nodes := s.feasible
	if len(nodes) == 1 {
		return nodes[0].Node
	}
	s.totals = append(s.totals[:0], make([]int64, len(nodes))...)
	s.raw = append(s.raw[:0], make([]int64, len(nodes))...)
	for _, score := range profile.scoresOf(state, pod, nodes) {
		for i, node := range nodes {
			s.raw[i] = score.Score(state, pod, node)
		}
		if n, ok := score.ScorePlugin.(framework.ScoreNormalizer); ok {
			n.NormalizeScore(state, pod, s.raw)
		}
		for i, value := range s.raw {
			s.totals[i] += value * score.weight
		}
	}
	chosen, ties := 0, 0
	for i := range nodes {
		switch better := cmp.Or(cmp.Compare(s.totals[i], s.totals[chosen]), cmp.Compare(len(nodes[chosen].Pods), len(nodes[i].Pods))); {
		case better > 0:
			chosen, ties = i, 1
		case better == 0:
			if ties++; rand.IntN(ties) == 0 {
				chosen = i
			}
		}
	}
	return nodes[chosen].Node
}

// scoresOf are the scores that have something to say about the pod.
func (p *profile) scoresOf(state *framework.CycleState, pod *nodecache.Pod, nodes []*nodecache.Node) []weighted {
	scores := p.scores
	for _, plugin := range p.preScores {
		if plugin.PreScore(state, pod, nodes).Code() == framework.Skip {
			scores = slices.DeleteFunc(slices.Clone(scores), func(w weighted) bool { return w.Name() == plugin.Name() })
		}
	}
	return scores
}

// reserve asks the plug-ins to keep what the pod needs. When one cannot, it takes back what the others have kept.
func (p *profile) reserve(d *decision, pod *nodecache.Pod) error {
	reserved := false
	defer func() {
		if !reserved { // also after a panic
			p.unreserve(d, pod)
		}
	}()
	for _, plugin := range p.reserves {
		if status := plugin.Reserve(d.state, pod, d.node); status != nil {
			return refusal("Reserve", plugin, status)
		}
	}
	reserved = true
	return nil
}

// unreserve takes back what reserve has kept, the last first.
func (p *profile) unreserve(d *decision, pod *nodecache.Pod) {
	for _, plugin := range slices.Backward(p.reserves) {
		plugin.Unreserve(d.state, pod, d.node)
	}
}

// refusalError says which plug-in did not succeed after a node was chosen.
type refusalError struct {
	point  string
	plugin framework.Plugin
	status *framework.Status
}

func refusal(point string, plugin framework.Plugin, status *framework.Status) error {
	return &refusalError{point, plugin, status}
}

// Error has upstream's form.
func (e *refusalError) Error() string {
	return fmt.Sprintf("running %s plugin %q: %s", e.point, e.plugin.Name(), e.status.Message())
}

// Unwrap returns the error that the plug-in has met; nil when it has refused the pod.
func (e *refusalError) Unwrap() error { return e.status.Err() }

// tell writes the PodScheduled condition of a pod that fits nowhere, unless it says so already.
func (s *Scheduler) tell(ctx context.Context, pod *nodecache.Pod, reason error) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && c.Message == reason.Error() {
			return
		}
	}
	patch, err := (&podcondition.Patch{UID: pod.UID, Have: pod.Status.Conditions, Set: corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: reason.Error(), LastTransitionTime: metav1.Now(), ObservedGeneration: pod.Generation,
	}}).Encode()
	if err != nil {
		s.config.Logger.Error("the scheduler cannot encode why a pod fits nowhere; the pod's status does not say it", "error", err)
		return
	}
	_, err = s.config.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		s.config.Logger.Warn("the scheduler could not write into a pod's status why it fits nowhere; its next attempt writes it", "namespace", pod.Namespace, "pod", pod.Pod.Name, "error", err)
	}
}

// misfitError says why a pod fits nowhere: each reason with the number of nodes that gave it.
type misfitError struct {
	nodes    int
	anywhere string // why it fits nowhere whatever the nodes are; "": see reasons
	reasons  map[string]int
	after    []string                     // what was tried to help it
	refused  map[string]*framework.Status // by node, if somebody asks for them
	helps    framework.Event
}

// add takes in that a plug-in has refused a node.
func (e *misfitError) add(node string, by framework.Plugin, status *framework.Status, keep bool) {
	for _, reason := range status.Reasons() {
		e.reasons[reason]++
	}
	e.helps |= helps(by)
	if keep {
		if e.refused == nil {
			e.refused = map[string]*framework.Status{}
		}
		e.refused[node] = status
	}
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
	return strings.Join(append([]string{fmt.Sprintf("0/%d nodes are available: %s.", e.nodes, strings.Join(parts, ", "))}, e.after...), " ")
}
