package kubelet

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/manifests"
)

// Questions about a pod and what the runtime shows of it, without side effects.

// fullName names a pod as upstream's messages do.
func fullName(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

// podReference names a pod as events do.
func podReference(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
}

// FromManifest says whether a pod comes from a file of this node, and not from the API server.
func FromManifest(pod *corev1.Pod) bool {
	source := pod.Annotations[manifests.SourceAnnotation]
	return source != "" && source != "api"
}

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

func finished(pod *corev1.Pod) bool { return terminal(pod.Status.Phase) }

// restarts says whether a container that has ended with this exit code is started again: by the rules of the container, by its
// own policy, by the pod's, the first that says something (KEP-5307). An init container that has succeeded has done its work.
func restarts(pod *corev1.Pod, c *corev1.Container, exitCode int32) bool {
	init := initContainer(pod, c)
	if init && !sidecar(c) && exitCode == 0 {
		return false
	}
	if rule := matchingRule(c, exitCode); rule != nil && rule.Action == corev1.ContainerRestartRuleActionRestart {
		return true
	}
	policy := pod.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyOnFailure:
		return exitCode != 0
	case corev1.RestartPolicyNever:
		return false
	}
	return true
}

// mayRestart says whether a container is started again after an end that is a failure.
func mayRestart(pod *corev1.Pod, c *corev1.Container) bool {
	for i := range c.RestartPolicyRules {
		if c.RestartPolicyRules[i].Action == corev1.ContainerRestartRuleActionRestart {
			return true
		}
	}
	if c.RestartPolicy != nil {
		return *c.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

// restartable says whether any container of the pod may be started again.
func restartable(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if !sidecar(&containers[i]) && mayRestart(pod, &containers[i]) {
				return true
			}
		}
	}
	return false
}

// matchingRule returns the first restart rule of a container that an exit code matches; nil when there is none.
func matchingRule(c *corev1.Container, exitCode int32) *corev1.ContainerRestartRule {
	for i := range c.RestartPolicyRules {
		rule := &c.RestartPolicyRules[i]
		if rule.ExitCodes == nil {
			continue
		}
		in := slices.Contains(rule.ExitCodes.Values, exitCode)
		if in == (rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return rule
		}
	}
	return nil
}

// beginsAnew says whether a container that ends with this exit code makes all containers of its pod begin anew (KEP-5532).
func beginsAnew(c *corev1.Container, exitCode int32) bool {
	rule := matchingRule(c, exitCode)
	return rule != nil && rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
}

// anyStarted says whether one of the pod's own containers was started in the newest sandbox, so that init is over.
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

// initFailed says whether an init container has failed for good.
func initFailed(pod *corev1.Pod, now observed) bool {
	if anyStarted(pod, now) {
		return false
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		have := now.containers[c.Name]
		if have != nil && have.State == ContainerExited && have.ExitCode != 0 && !restarts(pod, c, have.ExitCode) && !beginsAnew(c, have.ExitCode) {
			return true
		}
	}
	return false
}

// leastGrace is what a pod is given that asks for none (pod_workers.go calculateEffectiveGracePeriod).
const leastGrace = time.Second

// specGrace is how long a pod wants to be given to end.
func specGrace(pod *corev1.Pod) time.Duration {
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		return max(leastGrace, time.Duration(*g)*time.Second)
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// deletionGrace is how long a pod that is deleted is given. A deletion by force, which says 0, lets the API server forget the pod; the
// node ends it like any other, as upstream does.
func deletionGrace(pod *corev1.Pod) time.Duration {
	if g := pod.DeletionGracePeriodSeconds; g != nil && *g > 0 {
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
