package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// owned are the conditions that the kubelet writes. All others belong to somebody else.
var owned = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady, corev1.PodScheduled,
	corev1.PodResizePending, corev1.PodResizeInProgress, corev1.AllContainersRestarting,
}

// passing are those of the owned conditions that go away when there is nothing to tell.
var passing = []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress}

// transient sets a condition that is there only while it holds.
func transient(pod *corev1.Pod, status *corev1.PodStatus, kind corev1.PodConditionType, holds bool, reason, message string) {
	if !holds {
		status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
		return
	}
	setCondition(&status.Conditions, corev1.PodCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		ObservedGeneration: pod.Generation, LastTransitionTime: wholeSeconds(time.Now()),
	})
}

// conditions sets the conditions that the kubelet owns and leaves the others alone. The rest of the status is complete.
func conditions(pod *corev1.Pod, status *corev1.PodStatus, now observed, initialized bool) {
	set := func(kind corev1.PodConditionType, ok bool, reason, message string) {
		want := corev1.PodCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message,
			ObservedGeneration: pod.Generation, LastTransitionTime: wholeSeconds(time.Now()),
		}
		if ok {
			want.Status = corev1.ConditionTrue
		}
		setCondition(&status.Conditions, want)
	}
	set(corev1.PodReadyToStartContainers, now.sandbox != nil && now.sandbox.Ready, "", "")
	switch {
	case initialized && status.Phase == corev1.PodSucceeded:
		set(corev1.PodInitialized, true, "PodCompleted", "")
	case initialized:
		set(corev1.PodInitialized, true, "", "")
	default:
		set(corev1.PodInitialized, false, "ContainersNotInitialized", "containers with incomplete status: "+names(uninitialized(pod, status)))
	}
	ready, reason, message := containersReady(pod, status)
	set(corev1.ContainersReady, ready, reason, message)
	if ready {
		if missing := missingGates(pod, status); len(missing) > 0 {
			ready, reason, message = false, "ReadinessGatesNotReady", strings.Join(missing, ", ")
		}
	}
	set(corev1.PodReady, ready, reason, message)
	set(corev1.PodScheduled, true, "", "")
	if !mayBeginAnew(pod) {
		return
	}
	switch {
	case status.Phase == corev1.PodSucceeded:
		set(corev1.AllContainersRestarting, false, "PodCompleted", "")
	case status.Phase == corev1.PodFailed:
		set(corev1.AllContainersRestarting, false, "PodFailed", "")
	case trigger(pod, now) != nil:
		set(corev1.AllContainersRestarting, true, "RestartAllContainersStarted", "container exited with restart policy rule")
	default:
		set(corev1.AllContainersRestarting, false, "", "")
	}
}

// mayBeginAnew says whether the end of a container may restart all of the pod's.
func mayBeginAnew(pod *corev1.Pod) bool {
	for c := range allContainers(pod) {
		if slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		}) {
			return true
		}
	}
	return false
}

// setCondition adds a condition or replaces the one of its type. The transition time stays when the status does.
func setCondition(conditions *[]corev1.PodCondition, want corev1.PodCondition) {
	at := slices.IndexFunc(*conditions, func(c corev1.PodCondition) bool { return c.Type == want.Type })
	if at < 0 {
		*conditions = append(*conditions, want)
		return
	}
	have := &(*conditions)[at]
	if have.Status == want.Status && !have.LastTransitionTime.IsZero() {
		want.LastTransitionTime = have.LastTransitionTime
	}
	*have = want
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
		done := c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
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
