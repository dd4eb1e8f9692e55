package kubelet

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"vigil/kubelet/internal/podcontainers"
)

// resizing is what there is to say of a pod that asks for other resources than it was given (KEP-1287).
type resizing struct {
	pending, message string // why it is not given them: Deferred or Infeasible; "" when it is
	inProgress       bool   // it is given them, and not all of its containers have them
	failed           string // why not; "" while nothing is wrong
}

// allocate gives a pod the resources that it asks for, if the node has them, and returns it with what it was given.
func (w *worker) allocate(pod *corev1.Pod) *corev1.Pod {
	k := w.kubelet
	given := k.allocations.Allocated(pod)
	if given == pod {
		w.resizing.pending, w.resizing.message = "", ""
		return pod
	}
	reason, message := k.mayResize(w, pod)
	if reason != "" {
		if w.resizing.pending != reason || w.resizing.message != message {
			k.recorder.Event(pod, corev1.EventTypeWarning, "Resize"+reason, resizeMessage(reason, pod, message))
		}
		w.resizing.pending, w.resizing.message = reason, message
		return given
	}
	w.resizing = resizing{inProgress: true}
	k.allocations.Give(pod)
	k.recorder.Event(pod, corev1.EventTypeNormal, "ResizeStarted", resizeMessage("started", pod, ""))
	return pod
}

// mayResize says why a pod cannot have what it asks for, with the reasons and texts of upstream's allocation manager.
func (k *Kubelet) mayResize(w *worker, pod *corev1.Pod) (reason, message string) {
	if w.static {
		return corev1.PodReasonInfeasible, "In-place resize of static-pods is not supported"
	}
	allocatable := k.config.Allocatable
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	if want, have := requests.Memory().Value(), allocatable.Memory().Value(); want > have {
		return corev1.PodReasonInfeasible, fmt.Sprintf("Node didn't have enough capacity: memory, requested: %d, capacity: %d", want, have)
	}
	if want, have := requests.Cpu().MilliValue(), allocatable.Cpu().MilliValue(); want > have {
		return corev1.PodReasonInfeasible, fmt.Sprintf("Node didn't have enough capacity: cpu, requested: %d, capacity: %d", want, have)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var others []*corev1.Pod
	for _, other := range k.activeLocked() {
		if other.UID != pod.UID {
			others = append(others, other)
		}
	}
	for _, admitter := range k.config.Parts.Admitters {
		if refusal := admitter.Admit(pod, others); refusal != nil {
			return corev1.PodReasonDeferred, refusal.Message
		}
	}
	return "", ""
}

// restartToResize says whether a container has to be started anew to get what it was given. actuated is what it runs with.
func restartToResize(c *corev1.Container, actuated corev1.ResourceRequirements) bool {
	for _, policy := range c.ResizePolicy {
		if policy.RestartPolicy == corev1.RestartContainer && differ(c, actuated, policy.ResourceName) && known(actuated) {
			return true
		}
	}
	return false
}

func known(r corev1.ResourceRequirements) bool { return len(r.Requests)+len(r.Limits) > 0 }

// differ says whether a container was given another amount of a resource than it runs with.
func differ(c *corev1.Container, actuated corev1.ResourceRequirements, name corev1.ResourceName) bool {
	for _, pair := range [][2]corev1.ResourceList{{c.Resources.Requests, actuated.Requests}, {c.Resources.Limits, actuated.Limits}} {
		want, have := pair[0][name], pair[1][name]
		if want.Cmp(have) != 0 {
			return true
		}
	}
	return false
}

// resize gives containers that run what they were allocated: the pod's cgroup grows before they do, and shrinks behind them. wait
// is when to try again what has failed.
func (w *worker) resize(ctx context.Context, pod *corev1.Pod, now observed) (wait time.Duration, err error) {
	k := w.kubelet
	var change []*corev1.Container
	for c := range podcontainers.All(pod) {
		have := now.containers[c.Name]
		actuated, ok := now.actuated[c.Name]
		if !ok || have == nil || have.State != ContainerRunning || have.Requested != c.Image || restartToResize(c, actuated) {
			continue
		}
		if differ(c, actuated, corev1.ResourceCPU) || differ(c, actuated, corev1.ResourceMemory) {
			change = append(change, c)
		}
	}
	if len(change) == 0 && !w.resizing.inProgress {
		return 0, nil
	}
	cgroup := func(pod *corev1.Pod) error {
		if cgroups := k.config.Parts.Cgroups; cgroups != nil {
			if _, err := cgroups.Ensure(pod); err != nil {
				return fmt.Errorf("resize the pod's cgroup: %w", err)
			}
		}
		return nil
	}
	if len(change) > 0 {
		if !w.resizing.inProgress { // the kubelet before this one began
			k.recorder.Event(pod, corev1.EventTypeNormal, "ResizeStarted", resizeMessage("started", pod, ""))
		}
		w.resizing.inProgress = true
		w.reportObserved(pod, now, false)
		err = cgroup(larger(pod, now.actuated))
	}
	for _, c := range change {
		if err != nil {
			break
		}
		if err = k.config.Runtime.ResizeContainer(ctx, pod, c, now.containers[c.Name].ID); err == nil {
			k.allocations.Actuate(w.uid, c)
		} else {
			err = fmt.Errorf("resize container %s: %w", c.Name, err)
		}
	}
	if err == nil {
		err = cgroup(pod)
	}
	if err != nil {
		if ctx.Err() != nil {
			return 0, err
		}
		if w.resizing.failed == "" {
			k.recorder.Event(pod, corev1.EventTypeWarning, "ResizeError", resizeMessage("error", pod, err.Error()))
		}
		w.resizing.failed = err.Error()
		w.warn(ctx, "the kubelet could not resize a pod; it tries again", pod, err)
		return lastRetryDelay, nil
	}
	w.resizing.inProgress, w.resizing.failed = false, ""
	k.recorder.Event(pod, corev1.EventTypeNormal, "ResizeCompleted", resizeMessage("completed", pod, ""))
	return 0, nil
}

// larger returns the pod with the larger of what its containers were given and what they run with.
func larger(pod *corev1.Pod, actuated map[string]corev1.ResourceRequirements) *corev1.Pod {
	other := pod.DeepCopy()
	for c := range podcontainers.All(other) {
		have, ok := actuated[c.Name]
		if !ok {
			continue
		}
		c.Resources.Requests = most(c.Resources.Requests, have.Requests)
		limits := most(c.Resources.Limits, have.Limits)
		for name := range limits { // none is more than any
			if _, limited := c.Resources.Limits[name]; !limited {
				delete(limits, name)
			} else if _, limited := have.Limits[name]; !limited {
				delete(limits, name)
			}
		}
		c.Resources.Limits = limits
	}
	return other
}

func most(a, b corev1.ResourceList) corev1.ResourceList {
	all := maps.Clone(a)
	for name, q := range b {
		if have, ok := all[name]; !ok || have.Cmp(q) < 0 {
			if all == nil {
				all = corev1.ResourceList{}
			}
			all[name] = q
		}
	}
	return all
}

// resizeConditions tells of a resize that is not done.
func (w *worker) resizeConditions(l *conditionList) {
	r := &w.resizing
	if r.pending != "" {
		l.set(corev1.PodResizePending, true, r.pending, r.message)
	}
	if r.inProgress && r.failed != "" {
		l.set(corev1.PodResizeInProgress, true, corev1.PodReasonError, r.failed)
	} else if r.inProgress {
		l.set(corev1.PodResizeInProgress, true, "", "")
	}
}
