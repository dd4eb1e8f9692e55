package kubelet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kubelet/allocation"
)

// podStatus makes the status of a pod of what the runtime shows. pod has the status that was reported last. Phase, conditions
// and container states follow upstream's kubelet_pods.go and status/generate.go. final says that nothing runs any more and that
// nothing will: the phase becomes terminal, and containers of which nothing is known count as lost. The result shares with the
// status before what has not changed.
func (w *worker) podStatus(pod *corev1.Pod, now observed, final bool) corev1.PodStatus {
	status := pod.Status
	status.ObservedGeneration = pod.Generation
	if status.StartTime == nil {
		began := wholeSeconds(time.Now())
		status.StartTime = &began
	}
	w.addresses(pod, &status, now)
	if w.rejected.Load() {
		status.Phase, status.Reason, status.Message = w.verdict.Phase, w.verdict.Reason, w.verdict.Message
		return status
	}
	status.InitContainerStatuses = w.containerStatuses(pod, pod.Spec.InitContainers, now, pod.Status.InitContainerStatuses)
	status.ContainerStatuses = w.containerStatuses(pod, pod.Spec.Containers, now, pod.Status.ContainerStatuses)
	slices.SortFunc(status.ContainerStatuses, byName)
	status.EphemeralContainerStatuses = w.ephemeralStatuses(pod, now)
	slices.SortFunc(status.EphemeralContainerStatuses, byName)
	if final {
		markLost(pod, &status)
	}
	boundMessages(&status)
	switch {
	case finished(pod):
	case w.verdict != nil && !anyRunning(now):
		status.Phase, status.Reason, status.Message = w.verdict.Phase, w.verdict.Reason, w.verdict.Message
	default:
		status.Phase = phase(pod, &status, anyStarted(pod, now), w.ended || pod.DeletionTimestamp != nil)
		if terminal(status.Phase) && anyRunning(now) { // a pod has not ended before the last of its containers has
			status.Phase = cmp.Or(pod.Status.Phase, corev1.PodPending)
		}
	}
	if final && !terminal(status.Phase) {
		status.Phase = corev1.PodFailed
	}
	status.Conditions = w.conditions(pod, &status, now)
	if given := pod.Spec.Resources; given != nil { // of the pod as a whole (KEP-5419)
		status.AllocatedResources, status.Resources = given.Requests, given
	}
	return status
}

// byName is upstream's order of the statuses of containers.
func byName(a, b corev1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) }

// addressed returns the pod with the addresses in its status that it has now.
func (w *worker) addressed(pod *corev1.Pod, now observed) *corev1.Pod {
	other := *pod
	w.addresses(pod, &other.Status, now)
	return &other
}

func (w *worker) addresses(pod *corev1.Pod, status *corev1.PodStatus, now observed) {
	host := ""
	for _, a := range w.kubelet.config.Addresses {
		if a.Type == corev1.NodeInternalIP {
			host = a.Address
			break
		}
	}
	if host != "" {
		status.HostIP = host
		status.HostIPs = []corev1.HostIP{{IP: host}}
	}
	if now.sandbox == nil {
		return
	}
	ips := slices.Clone(now.sandbox.IPs)
	if pod.Spec.HostNetwork && host != "" {
		ips = []string{host}
	}
	if len(ips) > 0 {
		status.PodIP, status.PodIPs = ips[0], nil
		for _, ip := range ips {
			status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
		}
	}
}

func (w *worker) containerStatuses(pod *corev1.Pod, containers []corev1.Container, now observed, before []corev1.ContainerStatus) []corev1.ContainerStatus {
	if len(containers) == 0 {
		return nil
	}
	statuses := make([]corev1.ContainerStatus, 0, len(containers))
	for i := range containers {
		c := &containers[i]
		statuses = append(statuses, w.containerStatus(pod, c, now, statusOf(before, c.Name)))
	}
	return statuses
}

// statusOf finds the status of a container; nil when there is none.
func statusOf(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	if at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == name }); at >= 0 {
		return &statuses[at]
	}
	return nil
}

// containerStatus is the status of a container. One that has not come into being in the newest sandbox yet is shown as it ended in
// the one before.
func (w *worker) containerStatus(pod *corev1.Pod, c *corev1.Container, now observed, old *corev1.ContainerStatus) corev1.ContainerStatus {
	have := now.newest(c.Name)
	no, yes := false, true
	if have == nil {
		return w.missingStatus(pod, c, now, old)
	}
	status := corev1.ContainerStatus{
		Name: c.Name, Image: have.Image, ImageID: have.ImageID, ContainerID: have.ID, RestartCount: have.Attempt,
		AllocatedResources: c.Resources.Requests, Started: &no, User: have.User, VolumeMounts: volumeMountStatuses(c, have.Mounts),
	}
	if len(c.Resources.Requests) > 0 || len(c.Resources.Limits) > 0 {
		resources := allocation.WithoutClaims(c.Resources)
		if actuated, ok := now.actuated[c.Name]; ok {
			resources = actuated
		}
		status.Resources = &resources
	}
	switch have.State {
	case ContainerCreated:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		if why := w.waiting[c.Name]; why != nil {
			status.State.Waiting.Reason, status.State.Waiting.Message = why.reason, why.message
		}
	case ContainerRunning:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: wholeSeconds(have.Started)}
		h := now.healthOf(have)
		status.Ready = h.Ready
		if h.Started {
			status.Started = &yes
		}
	case ContainerExited:
		w.exitedStatus(pod, c, now, &status)
		keepLastWords(&status, old)
	}
	if last := now.previous[c.Name]; last != nil && last != have && last.State == ContainerExited && status.LastTerminationState.Terminated == nil {
		status.LastTerminationState.Terminated = terminated(last)
	}
	if status.LastTerminationState.Terminated == nil && old != nil && have.Attempt > 0 {
		if status.LastTerminationState = old.LastTerminationState; old.State.Terminated != nil && old.ContainerID != have.ID {
			status.LastTerminationState = old.State // the runtime has forgotten it
		}
	}
	return status
}

// keepLastWords puts back what a container left behind when the file with it is gone already.
func keepLastWords(status, old *corev1.ContainerStatus) {
	if old == nil || old.State.Terminated == nil || status.State.Terminated == nil {
		return
	}
	if t := status.State.Terminated; t.Message == "" && t.ContainerID == old.State.Terminated.ContainerID {
		t.Message = old.State.Terminated.Message
	}
}

// ephemeralStatuses are the statuses of the ephemeral containers.
func (w *worker) ephemeralStatuses(pod *corev1.Pod, now observed) (statuses []corev1.ContainerStatus) {
	for i := range pod.Spec.EphemeralContainers {
		c := (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		old := statusOf(pod.Status.EphemeralContainerStatuses, c.Name)
		status := w.containerStatus(pod, c, now, old)
		if now.newest(c.Name) == nil && hasRun(old) { // it went with its sandbox
			status = *old
			lose(&status)
		}
		if status.State.Waiting != nil && status.State.Waiting.Reason == "PodInitializing" {
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating", Message: status.State.Waiting.Message}
		}
		status.Ready, status.Started = false, nil // nobody waits for them
		statuses = append(statuses, status)
	}
	return statuses
}

// hasRun says whether a status, which may be nil, is that of a container that has been started.
func hasRun(status *corev1.ContainerStatus) bool {
	return status != nil && (status.State.Running != nil || status.State.Terminated != nil)
}

// missingStatus is the status of a container that the runtime does not know.
func (w *worker) missingStatus(pod *corev1.Pod, c *corev1.Container, now observed, old *corev1.ContainerStatus) corev1.ContainerStatus {
	why, no := w.waiting[c.Name], false
	over := finished(pod) || pod.DeletionTimestamp != nil || w.ended
	passed := initContainer(pod, c) && !sidecar(c) && anyStarted(pod, now) // it has done its work
	switch {
	case why != nil:
	case old != nil && old.ContainerID != "" && !passed && !over && mayBeginAnew(pod) && now.sandbox != nil && now.sandbox.Ready:
		return anewStatus(old)
	case old != nil && (over || old.State.Terminated != nil):
		return *old // the runtime has forgotten what it told before
	case passed:
		return corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true, Started: &no, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", Message: "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
		}}}
	}
	status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: &no}
	state := &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	if len(pod.Spec.InitContainers) > 0 {
		state.Reason = "PodInitializing"
	}
	if why != nil {
		state.Reason, state.Message = why.reason, why.message
	}
	status.State.Waiting = state
	if old != nil {
		status.RestartCount, status.LastTerminationState = old.RestartCount, old.LastTerminationState
		switch {
		case old.State.Terminated != nil:
			status.LastTerminationState = old.State
		case old.State.Running != nil:
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				ContainerID: old.ContainerID, ExitCode: 137, Reason: "ContainerStatusUnknown", StartedAt: old.State.Running.StartedAt,
				Message: "The container could not be located when the pod was deleted.  The container used to be Running",
			}
		}
	}
	return status
}

// anewStatus is the status of a container that was taken away because all of the pod's begin anew. old is what it was before.
func anewStatus(old *corev1.ContainerStatus) corev1.ContainerStatus {
	const message = "The container is removed because RestartAllContainers in place"
	status, no, end := *old, false, corev1.ContainerStateTerminated{ExitCode: 137}
	if last := lastEnd(old); last != nil {
		end = *last
	}
	end.Reason, end.Message = restartingAll, message
	status.Ready, status.Started = false, &no
	status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: restartingAll, Message: message}}
	status.LastTerminationState = corev1.ContainerState{Terminated: &end}
	return status
}

// exitedStatus fills in the state of a container that has ended: terminated, or waiting to be started again.
func (w *worker) exitedStatus(pod *corev1.Pod, c *corev1.Container, now observed, status *corev1.ContainerStatus) {
	have := now.newest(c.Name)
	init := initContainer(pod, c)
	status.Ready = init && !sidecar(c) && have.ExitCode == 0
	status.State.Terminated = terminated(have)
	again := restarts(pod, c, have.ExitCode) || have.Requested != c.Image || init && now.containers[c.Name] == nil // once more, in another sandbox
	if w.ended || pod.DeletionTimestamp != nil || ephemeral(pod, c.Name) || !again {
		return
	}
	var state *corev1.ContainerStateWaiting
	if why := w.waiting[c.Name]; why != nil {
		state = &corev1.ContainerStateWaiting{Reason: why.reason, Message: why.message}
	} else if left := time.Until(w.backoff.until(have)); left > 0 {
		state = &corev1.ContainerStateWaiting{
			Reason:  "CrashLoopBackOff",
			Message: fmt.Sprintf("back-off %v restarting failed container=%s pod=%s", w.backoff[c.Name], c.Name, fullName(pod)),
		}
	}
	if state != nil {
		status.LastTerminationState.Terminated = status.State.Terminated
		status.State = corev1.ContainerState{Waiting: state}
	}
}

// wholeSeconds is a time as the API has it: without what encoding it would lose.
func wholeSeconds(t time.Time) metav1.Time { return metav1.Unix(t.Unix(), 0) }

// markLost ends the containers of a pod of which nothing is known and nothing will be: the pod's own, if they could have run, and the
// init containers up to the last that is known to have run (status_manager.go TerminatePod).
func markLost(pod *corev1.Pod, status *corev1.PodStatus) {
	if len(uninitialized(pod, status)) == 0 || slices.ContainsFunc(status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Waiting == nil || lastEnd(&s) != nil }) {
		for i := range status.ContainerStatuses {
			lose(&status.ContainerStatuses[i])
		}
	}
	ran := false
	for i := range slices.Backward(status.InitContainerStatuses) {
		s := &status.InitContainerStatuses[i]
		if ran = ran || i == 0 || s.State.Waiting == nil || lastEnd(s) != nil; ran {
			lose(s)
		}
	}
}

// lose marks a container that does not run, and did not end as far as is known, as lost.
func lose(s *corev1.ContainerStatus) {
	if s.State.Terminated != nil {
		return
	}
	no := false
	s.Ready, s.Started = false, &no
	s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated",
	}}
}

func initContainer(pod *corev1.Pod, c *corev1.Container) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
}

func ephemeral(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

func terminated(c *Container) *corev1.ContainerStateTerminated {
	started := c.Started
	if started.IsZero() {
		started = time.Unix(0, 0) // what upstream says of one that could not be started
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: c.ExitCode, Signal: c.Signal, Reason: c.Reason, Message: c.Message, ContainerID: c.ID,
		StartedAt: wholeSeconds(started), FinishedAt: wholeSeconds(c.Finished),
	}
}
