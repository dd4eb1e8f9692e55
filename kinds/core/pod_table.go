package core

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds"
	"vigil/kinds/column"
)

var podColumns = []metav1.TableColumnDefinition{
	column.Name(),
	column.Text("Ready", "How many of the pod's containers are ready, and how many there are."),
	column.Text("Status", "Where the pod is in its life, or what keeps its containers from running."),
	column.Text("Restarts", "How often containers of the pod were restarted, and when that last happened."),
	column.Age(),
	column.Wide(column.Text("IP", corev1.PodStatus{}.SwaggerDoc()["podIP"])),
	column.Wide(column.Text("Node", corev1.PodSpec{}.SwaggerDoc()["nodeName"])),
	column.Wide(column.Text("Nominated Node", corev1.PodStatus{}.SwaggerDoc()["nominatedNodeName"])),
	column.Wide(column.Text("Readiness Gates", corev1.PodSpec{}.SwaggerDoc()["readinessGates"])),
}

func podRow(obj kinds.Object, now time.Time) []any {
	pod := obj.(*corev1.Pod)
	s := summarizePod(pod)
	restarts := fmt.Sprint(s.restarts.count)
	if s.restarts.count > 0 && !s.restarts.last.IsZero() {
		restarts = fmt.Sprintf("%d (%s ago)", s.restarts.count, column.Since(s.restarts.last, now))
	}
	var ip string
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	gates := column.None
	if n := len(pod.Spec.ReadinessGates); n > 0 {
		passed := 0
		for _, gate := range pod.Spec.ReadinessGates {
			if podConditionTrue(pod, gate.ConditionType) {
				passed++
			}
		}
		gates = fmt.Sprintf("%d/%d", passed, n)
	}
	return []any{
		pod.Name,
		fmt.Sprintf("%d/%d", s.ready, s.total),
		s.reason,
		restarts,
		column.Since(pod.CreationTimestamp, now),
		column.Or(ip, column.None),
		column.Or(pod.Spec.NodeName, column.None),
		column.Or(pod.Status.NominatedNodeName, column.None),
		gates,
	}
}

func podRowConditions(obj kinds.Object) []metav1.TableRowCondition {
	switch obj.(*corev1.Pod).Status.Phase {
	case corev1.PodSucceeded:
		return []metav1.TableRowCondition{{
			Type: metav1.RowCompleted, Status: metav1.ConditionTrue,
			Reason: string(corev1.PodSucceeded), Message: "The pod has completed successfully.",
		}}
	case corev1.PodFailed:
		return []metav1.TableRowCondition{{
			Type: metav1.RowCompleted, Status: metav1.ConditionTrue,
			Reason: string(corev1.PodFailed), Message: "The pod failed.",
		}}
	}
	return nil
}

// podSummary is what the Ready, Status and Restarts cells tell.
type podSummary struct {
	ready, total int // containers that run side by side: main ones and restartable init containers
	reason       string
	restarts     restarts
}

// restarts counts restarts and remembers when the last run that ended did so.
type restarts struct {
	count int32
	last  metav1.Time
}

func (r *restarts) add(status *corev1.ContainerStatus) {
	r.count += status.RestartCount
	if t := status.LastTerminationState.Terminated; t != nil && r.last.Before(&t.FinishedAt) {
		r.last = t.FinishedAt
	}
}

// summarizePod walks the statuses in the order in which containers start. While init containers are at work the first
// unfinished one gives the reason; afterwards the first main container that does not run does.
func summarizePod(pod *corev1.Pod) podSummary {
	s := podSummary{total: len(pod.Spec.Containers), reason: string(pod.Status.Phase)}
	restartable := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			restartable[c.Name] = true
			s.total++
		}
	}
	if pod.Status.Reason != "" {
		s.reason = pod.Status.Reason
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.reason = corev1.PodReasonSchedulingGated
		}
	}

	var sidecarRestarts restarts
	initializing := false
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		s.restarts.add(status)
		if restartable[status.Name] {
			sidecarRestarts.add(status)
		}
		if t := status.State.Terminated; t != nil && t.ExitCode == 0 {
			continue
		}
		if restartable[status.Name] && status.Started != nil && *status.Started {
			if status.Ready {
				s.ready++
			}
			continue
		}
		s.reason = initReason(status, i, len(pod.Spec.InitContainers))
		initializing = true
		break
	}
	if !initializing || podConditionTrue(pod, corev1.PodInitialized) {
		s.restarts = sidecarRestarts
		s.mainContainers(pod)
	}
	if pod.DeletionTimestamp != nil {
		switch {
		case pod.Status.Reason == "NodeLost":
			s.reason = "Unknown"
		case pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed:
			s.reason = "Terminating"
		}
	}
	return s
}

// mainContainers goes from the last container to the first, so that the first one's reason stands.
func (s *podSummary) mainContainers(pod *corev1.Pod) {
	running := false
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		status := &pod.Status.ContainerStatuses[i]
		s.restarts.add(status)
		switch {
		case status.State.Waiting != nil && status.State.Waiting.Reason != "":
			s.reason = status.State.Waiting.Reason
		case status.State.Terminated != nil:
			s.reason = exitReason(status.State.Terminated)
		case status.Ready && status.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.reason == "Completed" && running {
		s.reason = "NotReady"
		if podConditionTrue(pod, corev1.PodReady) {
			s.reason = "Running"
		}
	}
}

// initReason says how far initialization is: at init container number index of count.
func initReason(status *corev1.ContainerStatus, index, count int) string {
	switch {
	case status.State.Terminated != nil:
		return "Init:" + exitReason(status.State.Terminated)
	case status.State.Waiting != nil && status.State.Waiting.Reason != "" && status.State.Waiting.Reason != "PodInitializing":
		return "Init:" + status.State.Waiting.Reason
	}
	return fmt.Sprintf("Init:%d/%d", index, count)
}

func exitReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

func podConditionTrue(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
