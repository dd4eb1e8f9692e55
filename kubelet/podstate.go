package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Questions about a pod and what the runtime shows of it, without side effects.

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
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

// allEnded says whether every container of the pod has ended for good.
func allEnded(pod *corev1.Pod, now observed) bool {
	for i := range pod.Spec.Containers {
		c := now.containers[pod.Spec.Containers[i].Name]
		if c == nil || c.State != ContainerExited || restarts(pod.Spec.RestartPolicy, c) {
			return false
		}
	}
	return true
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
