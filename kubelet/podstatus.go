package kubelet

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podStatus makes the status of a pod of what the runtime shows. Phase, conditions and container states follow upstream's
// kubelet_pods.go and status/generate.go. override replaces what its set fields say.
func (k *Kubelet) podStatus(pod *corev1.Pod, now observed, override *corev1.PodStatus) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	if status.StartTime == nil {
		began := metav1.Now().Rfc3339Copy()
		status.StartTime = &began
	}
	if ip := k.hostIP(); ip != "" {
		status.HostIP = ip
		status.HostIPs = []corev1.HostIP{{IP: ip}}
	}
	if now.sandbox != nil && len(now.sandbox.IPs) > 0 {
		status.PodIP, status.PodIPs = now.sandbox.IPs[0], nil
		for _, ip := range now.sandbox.IPs {
			status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
		}
	}
	initialized := k.initialized(pod, now)
	status.InitContainerStatuses = k.containerStatuses(pod, pod.Spec.InitContainers, now, pod.Status.InitContainerStatuses, true)
	status.ContainerStatuses = k.containerStatuses(pod, pod.Spec.Containers, now, pod.Status.ContainerStatuses, initialized)
	if !finished(pod) {
		status.Phase = phase(pod, now, initialized)
	}
	if override != nil {
		status.Phase, status.Reason, status.Message = override.Phase, override.Reason, override.Message
	}
	conditions(pod, &status, now, initialized)
	return status
}

func (k *Kubelet) hostIP() string {
	for _, a := range k.config.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

func (k *Kubelet) initialized(pod *corev1.Pod, now observed) bool {
	if anyStarted(pod, now) {
		return true
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		have := now.containers[c.Name]
		switch {
		case have == nil:
			return false
		case sidecar(c):
			if have.State != ContainerRunning {
				return false
			}
		case have.State != ContainerExited || have.ExitCode != 0:
			return false
		}
	}
	return true
}

func phase(pod *corev1.Pod, now observed, initialized bool) corev1.PodPhase {
	if !initialized {
		for i := range pod.Spec.InitContainers {
			c := &pod.Spec.InitContainers[i]
			have := now.containers[c.Name]
			failed := have != nil && !sidecar(c) && have.State == ContainerExited && have.ExitCode != 0
			if failed && pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
				return corev1.PodFailed
			}
		}
		return corev1.PodPending
	}
	waiting, ended, failed := 0, 0, 0
	for i := range pod.Spec.Containers {
		have := now.containers[pod.Spec.Containers[i].Name]
		switch {
		case have == nil:
			waiting++
		case have.State == ContainerExited && (!restarts(pod.Spec.RestartPolicy, have) || pod.DeletionTimestamp != nil):
			ended++
			if have.ExitCode != 0 {
				failed++
			}
		}
	}
	switch {
	case waiting > 0:
		return corev1.PodPending
	case ended < len(pod.Spec.Containers):
		return corev1.PodRunning
	case failed > 0:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

func (k *Kubelet) containerStatuses(pod *corev1.Pod, containers []corev1.Container, now observed, before []corev1.ContainerStatus, initialized bool) []corev1.ContainerStatus {
	if len(containers) == 0 {
		return nil
	}
	statuses := make([]corev1.ContainerStatus, 0, len(containers))
	for i := range containers {
		c := &containers[i]
		var old *corev1.ContainerStatus
		if at := slices.IndexFunc(before, func(s corev1.ContainerStatus) bool { return s.Name == c.Name }); at >= 0 {
			old = &before[at]
		}
		statuses = append(statuses, k.containerStatus(pod, c, now, old, initialized))
	}
	return statuses
}

func (k *Kubelet) containerStatus(pod *corev1.Pod, c *corev1.Container, now observed, old *corev1.ContainerStatus, initialized bool) corev1.ContainerStatus {
	have := now.containers[c.Name]
	no, yes := false, true
	if have == nil {
		if old != nil && (old.State.Terminated != nil || finished(pod) || pod.DeletionTimestamp != nil) {
			return *old // the runtime has forgotten what it told before
		}
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: &no}
		reason := "ContainerCreating"
		if !initialized || now.sandbox == nil && len(pod.Spec.InitContainers) > 0 {
			reason = "PodInitializing"
		}
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
		if old != nil {
			status.RestartCount, status.LastTerminationState = old.RestartCount, old.LastTerminationState
		}
		return status
	}
	status := corev1.ContainerStatus{
		Name: c.Name, Image: have.Image, ImageID: have.ImageID, ContainerID: have.ID, RestartCount: have.Attempt,
		AllocatedResources: c.Resources.Requests, Started: &no,
	}
	if len(c.Resources.Requests) > 0 || len(c.Resources.Limits) > 0 {
		status.Resources = c.Resources.DeepCopy()
		status.Resources.Claims = nil
	}
	switch have.State {
	case ContainerCreated:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	case ContainerRunning:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(have.Started).Rfc3339Copy()}
		status.Started, status.Ready = &yes, true
	case ContainerExited:
		status.State.Terminated = terminated(have)
		if initContainer(pod, c) && !sidecar(c) {
			status.Ready = have.ExitCode == 0
		}
		if left := time.Until(k.backoff.until(pod.UID, have)); left > 0 && pod.DeletionTimestamp == nil && restarts(pod.Spec.RestartPolicy, have) {
			status.LastTerminationState.Terminated = status.State.Terminated
			status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "CrashLoopBackOff",
				Message: fmt.Sprintf("back-off %v restarting failed container=%s pod=%s_%s(%s)",
					k.backoff.current(pod.UID, c.Name), c.Name, pod.Name, pod.Namespace, pod.UID),
			}}
		}
	}
	if last := now.previous[c.Name]; last != nil && status.LastTerminationState.Terminated == nil {
		status.LastTerminationState.Terminated = terminated(last)
	}
	return status
}

func initContainer(pod *corev1.Pod, c *corev1.Container) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
}

func terminated(c *Container) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message, ContainerID: c.ID,
		StartedAt: metav1.NewTime(c.Started).Rfc3339Copy(), FinishedAt: metav1.NewTime(c.Finished).Rfc3339Copy(),
	}
}

// conditions sets the conditions that the kubelet owns and leaves the others alone.
func conditions(pod *corev1.Pod, status *corev1.PodStatus, now observed, initialized bool) {
	set := func(kind corev1.PodConditionType, ok bool, reason, message string) {
		want := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: pod.Generation, LastTransitionTime: metav1.Now().Rfc3339Copy()}
		if ok {
			want.Status, want.Reason, want.Message = corev1.ConditionTrue, "", ""
		}
		for i := range status.Conditions {
			have := &status.Conditions[i]
			if have.Type != kind {
				continue
			}
			if have.Status == want.Status {
				want.LastTransitionTime = have.LastTransitionTime
			}
			*have = want
			return
		}
		status.Conditions = append(status.Conditions, want)
	}
	var unready []string
	for _, c := range status.ContainerStatuses {
		if !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	for i, c := range status.InitContainerStatuses {
		if sidecar(&pod.Spec.InitContainers[i]) && !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	reason, message := "ContainersNotReady", fmt.Sprintf("containers with unready status: %v", unready)
	ended := status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed
	if status.Phase == corev1.PodSucceeded {
		reason, message = "PodCompleted", ""
	} else if status.Phase == corev1.PodFailed {
		reason, message = "PodFailed", ""
	}
	containersReady := len(unready) == 0 && !ended
	gates, missing := true, []string{}
	for _, gate := range pod.Spec.ReadinessGates {
		ok := slices.ContainsFunc(status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
		if !ok {
			gates = false
			missing = append(missing, string(gate.ConditionType))
		}
	}
	set(corev1.PodReadyToStartContainers, now.sandbox != nil && now.sandbox.Ready, "", "")
	var uninitialized []string
	if !initialized {
		for i, c := range status.InitContainerStatuses {
			if done := c.State.Terminated != nil && c.State.Terminated.ExitCode == 0; !done && !(sidecar(&pod.Spec.InitContainers[i]) && c.Ready) {
				uninitialized = append(uninitialized, c.Name)
			}
		}
	}
	set(corev1.PodInitialized, initialized, "ContainersNotInitialized", fmt.Sprintf("containers with incomplete status: %v", uninitialized))
	set(corev1.ContainersReady, containersReady, reason, message)
	if containersReady && !gates {
		set(corev1.PodReady, false, "ReadinessGatesNotReady", fmt.Sprintf("the status of pod readiness gates %q is not \"True\"", missing))
	} else {
		set(corev1.PodReady, containersReady, reason, message)
	}
	set(corev1.PodScheduled, true, "", "")
}
