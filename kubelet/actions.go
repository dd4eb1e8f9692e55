package kubelet

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/prober"
)

// actions are what a pod needs next, in the order of their fields. They follow upstream's computePodActions
// (kuberuntime_manager.go).
type actions struct {
	end        bool // nothing is left to do: what still runs ends, and nothing is started any more
	restartAll bool // a container has ended in a way that begins the pod anew (KEP-5532)
	sandbox    bool // there is no sandbox that works
	kill       []kill
	ephemeral  []*corev1.Container
	init       []*corev1.Container // the first that cannot be started holds up what follows, unless it is a sidecar
	start      []*corev1.Container
}

// kill is a container that runs and should not, because of what message says.
type kill struct {
	container *Container
	spec      *corev1.Container
	message   string
	grace     *int64 // seconds, of the probe that has failed; nil: the pod's
}

// healthOf is the health of a container that runs.
func (o observed) healthOf(c *Container) prober.Health {
	if h, ok := o.health[c.ID]; ok {
		return h
	}
	return prober.Health{Started: true, Ready: true}
}

// compute decides what to do about a pod that should run, of which the runtime shows now.
func compute(pod *corev1.Pod, now observed) actions {
	if now.sandbox == nil || !now.sandbox.Ready {
		return computeAnew(pod, now)
	}
	if trigger(pod, now) != nil {
		return actions{restartAll: true}
	}
	a := actions{}
	for i := range pod.Spec.EphemeralContainers { // they are never restarted, not even in another sandbox
		c := (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if now.containers[c.Name] == nil && !hasRun(statusOf(pod.Status.EphemeralContainerStatuses, c.Name)) {
			a.ephemeral = append(a.ephemeral, c)
		}
	}
	if initFailed(pod, now) {
		return actions{end: true}
	}
	if !a.computeInit(pod, now) {
		return a
	}
	kept := 0
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		have := now.containers[c.Name]
		switch {
		case have == nil, have.State == ContainerCreated:
			a.start = append(a.start, c) // one that was created and not started is left over from an attempt that failed
		case have.State == ContainerExited:
			if restarts(pod, c, have.ExitCode) {
				a.start = append(a.start, c)
			}
		default:
			if k, again := unwanted(pod, c, now, have, "Container"); k != nil {
				a.kill = append(a.kill, *k)
				if again {
					a.start = append(a.start, c)
				}
				continue
			}
			kept++
		}
	}
	if kept == 0 && len(a.start) == 0 {
		return actions{end: true}
	}
	return a
}

// computeAnew decides about a pod without a sandbox that works: all begins anew, init included.
func computeAnew(pod *corev1.Pod, now observed) actions {
	if now.sandbox != nil && len(now.containers) > 0 && !restartable(pod) {
		return actions{end: true}
	}
	a := actions{sandbox: true}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if have := now.containers[c.Name]; have != nil && have.State == ContainerExited && have.ExitCode == 0 && !restarts(pod, c, 0) {
			continue
		}
		a.start = append(a.start, c)
	}
	if len(a.start) == 0 {
		return actions{end: true}
	}
	if len(pod.Spec.InitContainers) > 0 {
		a.init, a.start = []*corev1.Container{&pod.Spec.InitContainers[0]}, nil
	}
	return a
}

// computeInit decides about the init containers and says whether the others may run. It looks at the last one first: those
// before it that have ended may have been collected.
func (a *actions) computeInit(pod *corev1.Pod, now observed) (initialized bool) {
	containers := pod.Spec.InitContainers
	if len(containers) == 0 {
		return true
	}
	initialized = anyStarted(pod, now)
	passed := initialized // what comes before has done its work
	for i := len(containers) - 1; i >= 0; i-- {
		c := &containers[i]
		have := now.containers[c.Name]
		if have == nil {
			if passed && sidecar(c) {
				a.init = append(a.init, c)
			}
			continue
		}
		if passed && !sidecar(c) {
			continue
		}
		next := func() { // c has done its work: whatever comes behind it may start
			switch {
			case i == len(containers)-1:
				initialized = true
			case !passed:
				a.init = append(a.init, &containers[i+1])
			}
		}
		switch have.State {
		case ContainerCreated:
			a.init = append(a.init, c)
		case ContainerExited:
			switch {
			case sidecar(c):
				a.init = append(a.init, c)
			case have.ExitCode == 0:
				next()
			default:
				a.init = append(a.init, c) // initFailed has said that it is restarted
			}
		case ContainerRunning:
			if !sidecar(c) {
				break
			}
			if h := now.healthOf(have); h.Started {
				next()
			}
			if k, _ := unwanted(pod, c, now, have, "Init container"); k != nil {
				a.kill = append(a.kill, *k)
				a.init = append(a.init, c)
			}
		}
		passed = true
	}
	if !passed {
		a.init = append(a.init, &containers[0])
	}
	slices.Reverse(a.init)
	return initialized
}

// unwanted says why a container that runs should not run on as it is, nil when it should, and whether it is started again.
func unwanted(pod *corev1.Pod, c *corev1.Container, now observed, have *Container, kind string) (k *kill, again bool) {
	var message string
	var grace *int64
	if have.Requested != c.Image {
		message, again = fmt.Sprintf("%s %s definition changed", kind, c.Name), true // whatever the restart policy says
	} else if restartToResize(c, now.actuated[c.Name]) {
		return &kill{container: have, spec: c, message: fmt.Sprintf("Container %s resize requires restart", c.Name)}, true
	} else if h := now.healthOf(have); h.Failed != "" {
		message, grace, again = fmt.Sprintf("%s %s %s", kind, c.Name, h.Failed), h.Grace, mayRestart(pod, c)
	} else {
		return nil, false
	}
	if again && kind == "Container" {
		message += ", will be restarted"
	}
	return &kill{container: have, spec: c, message: message, grace: grace}, again
}

// trigger returns a container whose end restarts all containers of the pod; nil when there is none.
func trigger(pod *corev1.Pod, now observed) *Container {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			have := now.containers[containers[i].Name]
			if have == nil || have.State != ContainerExited {
				continue
			}
			if beginsAnew(&containers[i], have.ExitCode) {
				return have
			}
		}
	}
	return nil
}
