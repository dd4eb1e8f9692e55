package kubelet

import (
	corev1 "k8s.io/api/core/v1"
)

// restartingAll is the reason of containers that are gone because all containers of the pod begin anew (KEP-5532).
const restartingAll = "RestartingAllContainers"

// tally counts the containers of a pod by what matters for its phase.
type tally struct {
	initPending    int // init containers that have yet to succeed
	initFailed     int // ... that have failed for good
	sidecarPending int // sidecars that have yet to be started
	running        int // sidecars and own containers that run
	waiting        int // ... that have never run
	ended          int // own containers that have ended
	succeeded      int // ... with 0, and are not about to be started again
	over           int // ... and are not started again
}

// lastEnd is how a container ended that does not run; nil when it runs or has never run.
func lastEnd(status *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if status.State.Waiting != nil {
		return status.LastTerminationState.Terminated
	}
	return status.State.Terminated
}

// goesOn says whether a container is started again after this end: by its rules and policies, or because all of the pod's are.
func goesOn(pod *corev1.Pod, c *corev1.Container, end *corev1.ContainerStateTerminated) bool {
	return restarts(pod, c, end.ExitCode) || beginsAnew(c, end.ExitCode) || end.Reason == restartingAll
}

func (n *tally) countInit(pod *corev1.Pod, c *corev1.Container, status *corev1.ContainerStatus) {
	end := lastEnd(status)
	switch {
	case end == nil:
		n.initPending++
	case end.ExitCode != 0 && !goesOn(pod, c, end):
		n.initFailed++
	}
}

func (n *tally) countSidecar(status *corev1.ContainerStatus) {
	switch {
	case status.State.Running != nil:
		n.running++
		if status.Started == nil || !*status.Started {
			n.sidecarPending++
		}
	case lastEnd(status) == nil:
		n.sidecarPending++
		n.waiting++
	}
}

func (n *tally) countOwn(pod *corev1.Pod, c *corev1.Container, status *corev1.ContainerStatus) {
	end := lastEnd(status)
	switch {
	case status.State.Running != nil:
		n.running++
	case end == nil:
		n.waiting++
	default:
		n.ended++
		if status.State.Terminated != nil && end.ExitCode == 0 {
			n.succeeded++
		}
		if !goesOn(pod, c, end) {
			n.over++
		}
	}
}

// phase follows upstream's getPhase: it is told from the statuses of the containers, which remember those of a sandbox before, so that
// a pod that has run does not become Pending again while a container, an image or a sandbox is waited for. It does so only while its
// init containers run once more. started says that one of the pod's own containers has come into being in the newest sandbox; ending,
// that nothing is started any more.
func phase(pod *corev1.Pod, status *corev1.PodStatus, started, ending bool) corev1.PodPhase {
	n := tally{}
	for i := range status.InitContainerStatuses {
		if c := &pod.Spec.InitContainers[i]; sidecar(c) {
			n.countSidecar(&status.InitContainerStatuses[i])
		} else {
			n.countInit(pod, c, &status.InitContainerStatuses[i])
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		n.countOwn(pod, c, statusOf(status.ContainerStatuses, c.Name))
	}
	switch {
	case n.initFailed > 0:
		return corev1.PodFailed
	case n.initPending > 0, n.sidecarPending > 0 && !started, n.waiting > 0:
		return corev1.PodPending
	case n.running > 0, n.over < n.ended && !ending:
		return corev1.PodRunning
	case n.succeeded == n.ended:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}
