package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/internal/podcontainers"
)

// owned are the conditions that the kubelet writes. All others belong to somebody else.
var owned = []corev1.PodConditionType{
	corev1.PodResizePending, corev1.PodResizeInProgress, corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady,
	corev1.ContainersReady, corev1.PodScheduled, corev1.AllContainersRestarting,
}

// conditionList puts the conditions of a pod together, in upstream's order: those of others as they are, then the kubelet's.
type conditionList struct {
	pod    *corev1.Pod
	before []corev1.PodCondition // from which transition times are taken
	now    []corev1.PodCondition
}

// newConditions begins the list with the conditions that are not the kubelet's.
func newConditions(pod *corev1.Pod, before []corev1.PodCondition) *conditionList {
	return &conditionList{pod: pod, before: before, now: appendOthers(make([]corev1.PodCondition, 0, max(len(before), 5)), before)}
}

// appendOthers appends those of some conditions that are not the kubelet's.
func appendOthers(list, conditions []corev1.PodCondition) []corev1.PodCondition {
	for i := range conditions {
		if !slices.Contains(owned, conditions[i].Type) {
			list = append(list, conditions[i])
		}
	}
	return list
}

// set adds a condition, or replaces the one of its type. The transition time stays when the status does.
func (l *conditionList) set(kind corev1.PodConditionType, ok bool, reason, message string) {
	want := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: l.pod.Generation}
	if ok {
		want.Status = corev1.ConditionTrue
	}
	if had := conditionOf(l.before, kind); had != nil && had.Status == want.Status && !had.LastTransitionTime.IsZero() {
		want.LastTransitionTime = had.LastTransitionTime
	} else {
		want.LastTransitionTime = wholeSeconds(time.Now())
	}
	if have := conditionOf(l.now, kind); have != nil {
		*have = want
		return
	}
	l.now = append(l.now, want)
}

// conditionOf finds the condition of a type; nil when there is none.
func conditionOf(conditions []corev1.PodCondition, kind corev1.PodConditionType) *corev1.PodCondition {
	if at := slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == kind }); at >= 0 {
		return &conditions[at]
	}
	return nil
}

// conditions makes the conditions of a pod whose status is complete but for them.
func (w *worker) conditions(pod *corev1.Pod, status *corev1.PodStatus, now observed) []corev1.PodCondition {
	l := newConditions(pod, status.Conditions)
	w.resizeConditions(l)
	if e := w.evicted(); e != nil && e.Condition != nil && w.verdict != nil {
		l.set(e.Condition.Type, true, e.Condition.Reason, e.Condition.Message)
	}
	l.set(corev1.PodReadyToStartContainers, now.sandbox != nil && now.sandbox.Ready, "", "")
	missing := uninitialized(pod, status)
	switch {
	case status.Phase == corev1.PodSucceeded:
		l.set(corev1.PodInitialized, true, "PodCompleted", "")
	case len(missing) == 0 || ownStarted(status):
		l.set(corev1.PodInitialized, true, "", "")
	default:
		l.set(corev1.PodInitialized, false, "ContainersNotInitialized", "containers with incomplete status: "+names(missing))
	}
	all, reason, message := containersReady(pod, status)
	ready, why, text := all, reason, message
	if ready {
		if missing := missingGates(pod, status); len(missing) > 0 {
			ready, why, text = false, "ReadinessGatesNotReady", strings.Join(missing, ", ")
		}
	}
	l.set(corev1.PodReady, ready, why, text)
	l.set(corev1.ContainersReady, all, reason, message)
	l.set(corev1.PodScheduled, true, "", "")
	if mayBeginAnew(pod) {
		l.beginsAnew(status.Phase, trigger(pod, now) != nil || waitsToBeginAnew(status))
	}
	return l.now
}

// beginsAnew tells whether all containers of the pod begin anew.
func (l *conditionList) beginsAnew(phase corev1.PodPhase, holds bool) {
	switch {
	case phase == corev1.PodSucceeded:
		l.set(corev1.AllContainersRestarting, false, "PodCompleted", "")
	case phase == corev1.PodFailed:
		l.set(corev1.AllContainersRestarting, false, "PodFailed", "")
	case holds:
		l.set(corev1.AllContainersRestarting, true, "RestartAllContainersStarted", "container exited with restart policy rule")
	default:
		l.set(corev1.AllContainersRestarting, false, "", "")
	}
}

// ownStarted says whether one of the pod's own containers runs or has ended, also in a sandbox before: init was over then.
func ownStarted(status *corev1.PodStatus) bool {
	return slices.ContainsFunc(status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return hasRun(&s) })
}

// waitsToBeginAnew says whether a container has been taken away so that it begins anew, and does not run yet.
func waitsToBeginAnew(status *corev1.PodStatus) bool {
	return slices.ContainsFunc(status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running == nil && s.LastTerminationState.Terminated != nil && s.LastTerminationState.Terminated.Reason == restartingAll
	})
}

// mayBeginAnew says whether the end of a container may restart all of the pod's.
func mayBeginAnew(pod *corev1.Pod) bool {
	for c := range podcontainers.All(pod) {
		if slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		}) {
			return true
		}
	}
	return false
}

func containersReady(pod *corev1.Pod, status *corev1.PodStatus) (ok bool, reason, message string) {
	switch status.Phase {
	case corev1.PodSucceeded:
		return false, "PodCompleted", ""
	case corev1.PodFailed:
		return false, "PodFailed", ""
	}
	var unready []string
	for i, c := range status.InitContainerStatuses {
		if sidecar(&pod.Spec.InitContainers[i]) && !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	for _, c := range status.ContainerStatuses {
		if !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	if len(unready) > 0 {
		return false, "ContainersNotReady", "containers with unready status: " + names(unready)
	}
	return true, "", ""
}

func uninitialized(pod *corev1.Pod, status *corev1.PodStatus) (containers []string) {
	for i, c := range status.InitContainerStatuses {
		done := c.Ready
		if sidecar(&pod.Spec.InitContainers[i]) {
			done = c.Started != nil && *c.Started
		}
		if !done {
			containers = append(containers, c.Name)
		}
	}
	return containers
}

// missingGates says of each readiness gate that is not open why.
func missingGates(pod *corev1.Pod, status *corev1.PodStatus) (why []string) {
	for _, gate := range pod.Spec.ReadinessGates {
		at := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case at < 0:
			why = append(why, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case status.Conditions[at].Status != corev1.ConditionTrue:
			why = append(why, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, status.Conditions[at].Status))
		}
	}
	return why
}

func names(containers []string) string { return "[" + strings.Join(containers, " ") + "]" }
