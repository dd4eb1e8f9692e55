package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Questions about a pod and what the runtime shows of it, without side effects.

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

func finished(pod *corev1.Pod) bool { return terminal(pod.Status.Phase) }

// initPolicy is when an init container that has ended is started again.
func initPolicy(pod *corev1.Pod, c *corev1.Container) corev1.RestartPolicy {
	switch {
	case sidecar(c):
		return corev1.RestartPolicyAlways
	case pod.Spec.RestartPolicy == corev1.RestartPolicyNever:
		return corev1.RestartPolicyNever
	}
	return corev1.RestartPolicyOnFailure
}

// restarts says whether a container that has ended is started again under the policy.
func restarts(policy corev1.RestartPolicy, ended *Container) bool {
	switch policy {
	case corev1.RestartPolicyAlways:
		return true
	case corev1.RestartPolicyOnFailure:
		return ended.ExitCode != 0
	}
	return false
}

// anyStarted says whether one of the pod's own containers has ever been started, so that init is over.
func anyStarted(pod *corev1.Pod, now observed) bool {
	for i := range pod.Spec.Containers {
		if now.containers[pod.Spec.Containers[i].Name] != nil {
			return true
		}
	}
	return false
}

func anyRunning(now observed) bool {
	for _, c := range now.containers {
		if c.State == ContainerRunning {
			return true
		}
	}
	return false
}

// initialized says whether the pod's own containers may start.
func initialized(pod *corev1.Pod, now observed) bool {
	if anyStarted(pod, now) {
		return true
	}
	if now.sandbox == nil && everStarted(pod) { // the runtime has forgotten the pod: what was reported holds
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodInitialized {
				return c.Status == corev1.ConditionTrue
			}
		}
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

// everStarted says whether the pod's status tells of a container that was started.
func everStarted(pod *corev1.Pod) bool {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].ContainerID != "" {
				return true
			}
		}
	}
	return false
}

// initFailed says whether an init container has failed for good.
func initFailed(pod *corev1.Pod, now observed) bool {
	if anyStarted(pod, now) {
		return false
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		have := now.containers[c.Name]
		if have != nil && have.State == ContainerExited && have.ExitCode != 0 && !restarts(initPolicy(pod, c), have) {
			return true
		}
	}
	return false
}

// over says whether the pod has nothing left to do: all its own containers have ended for good, or its init has failed.
func over(pod *corev1.Pod, now observed) bool {
	if initFailed(pod, now) {
		return true
	}
	for i := range pod.Spec.Containers {
		c := now.containers[pod.Spec.Containers[i].Name]
		if c == nil || c.State != ContainerExited || restarts(pod.Spec.RestartPolicy, c) {
			return false
		}
	}
	return true
}

// phase follows upstream's getPhase. ending says that nothing is started any more; a pod is not in a terminal phase before the
// last of its containers, sidecars included, has ended.
func phase(pod *corev1.Pod, now observed, ending bool) corev1.PodPhase {
	if !initialized(pod, now) {
		if initFailed(pod, now) && !anyRunning(now) {
			return corev1.PodFailed
		}
		return corev1.PodPending
	}
	ended, failed := 0, 0
	for i := range pod.Spec.Containers {
		have := now.containers[pod.Spec.Containers[i].Name]
		switch {
		case have == nil, have.State == ContainerCreated:
			return corev1.PodPending
		case have.State == ContainerExited && (ending || !restarts(pod.Spec.RestartPolicy, have)):
			ended++
			if have.ExitCode != 0 {
				failed++
			}
		}
	}
	switch {
	case ended < len(pod.Spec.Containers), anyRunning(now):
		return corev1.PodRunning
	case failed > 0:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

func specGrace(pod *corev1.Pod) time.Duration {
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		return time.Duration(*g) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

func deletionGrace(pod *corev1.Pod) time.Duration {
	if g := pod.DeletionGracePeriodSeconds; g != nil {
		return time.Duration(*g) * time.Second
	}
	return specGrace(pod)
}

func startTime(pod *corev1.Pod, fallback time.Time) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return fallback
}

// earliest returns the shortest of the waits, where 0 stands for none.
func earliest(waits ...time.Duration) time.Duration {
	var least time.Duration
	for _, wait := range waits {
		if wait > 0 && (least == 0 || wait < least) {
			least = wait
		}
	}
	return least
}
