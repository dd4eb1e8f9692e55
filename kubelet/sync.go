package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/prober"
)

// retryDelay is how long a worker waits after the runtime has failed.
const retryDelay = 2 * time.Second

// observed is what the runtime shows of a pod.
type observed struct {
	sandbox    *Sandbox
	containers map[string]*Container                  // newest attempt in the newest sandbox, by name
	previous   map[string]*Container                  // the attempt before, where the runtime still has it
	actuated   map[string]corev1.ResourceRequirements // what containers were given, by name
	health     map[string]prober.Health               // what probes say of containers that run, by ID; not in it: all is well
}

// newest returns the newest attempt of a container: the one in the newest sandbox, else one that has ended in a sandbox before; nil
// when there is neither.
func (o observed) newest(name string) *Container {
	if c := o.containers[name]; c != nil {
		return c
	}
	if c := o.previous[name]; c != nil && c.State == ContainerExited {
		return c
	}
	return nil
}

func (w *worker) observe(ctx context.Context, pod *corev1.Pod) (observed, error) {
	sandbox, all, err := w.kubelet.config.Runtime.Pod(ctx, w.uid)
	if err != nil {
		return observed{}, fmt.Errorf("ask the runtime: %w", err)
	}
	return w.sort(pod, sandbox, all), nil
}

// sort tells the newest attempts from those before.
func (w *worker) sort(pod *corev1.Pod, sandbox *Sandbox, all []*Container) observed {
	o := observed{sandbox: sandbox, actuated: w.kubelet.allocations.Actuated(w.uid), containers: map[string]*Container{}, previous: map[string]*Container{}}
	for _, c := range all {
		here := c.SandboxID == "" || sandbox != nil && c.SandboxID == sandbox.ID
		switch {
		case here && o.containers[c.Name] == nil && o.previous[c.Name] == nil:
			o.containers[c.Name] = c
		case o.previous[c.Name] == nil:
			o.previous[c.Name] = c
		}
	}
	if probes := w.kubelet.prober; probes != nil && pod != nil && prober.IsProbed(pod) {
		ip := ""
		if ips := ipsOf(w.addressed(pod, o)); len(ips) > 0 {
			ip = ips[0]
		}
		o.health = probes.Look(pod, running(o), ip, w.ended || pod.DeletionTimestamp != nil)
	}
	return o
}

// sync does the next thing for a pod, reports its status, and says when to look again at the latest (0: when something
// happens). done says that there is nothing left to do for this pod, ever.
func (w *worker) sync(ctx context.Context, pod *corev1.Pod, gone bool) (wait time.Duration, done bool) {
	k := w.kubelet
	pod = k.status.latest(pod)
	now, err := w.observe(ctx, pod)
	if err != nil {
		w.warn(ctx, "the kubelet could not bring a pod to where it should be; it tries again", pod, err)
		return retryDelay, false
	}
	w.judge(pod)
	if w.static && w.ended && !gone { // people see why it does not run
		if err := k.keepMirror(ctx, pod); err != nil {
			w.warn(ctx, "the kubelet could not write the mirror of a static pod; the pod runs all the same, and it tries again", pod, err)
			defer func() { wait = earliest(wait, retryDelay) }()
		}
	}
	switch {
	case gone:
		grace := deletionGrace(pod)
		if w.orphan {
			grace = leastGrace // nobody knows how much it wants
		}
		return w.end(ctx, pod, now, grace, func() (time.Duration, bool) { return w.clean(ctx, pod) })
	case pod.DeletionTimestamp != nil:
		return w.end(ctx, pod, now, deletionGrace(pod), func() (time.Duration, bool) { return w.finishDeletion(ctx, pod) })
	case w.ended:
		grace := specGrace(pod)
		if e := w.evicted(); e != nil && e.Grace != nil {
			grace = *e.Grace
		}
		return w.end(ctx, pod, now, grace, func() (time.Duration, bool) { return w.finishEnd(ctx, pod), false })
	}
	wait, err = w.advance(ctx, pod, now)
	reported := w.report(ctx, pod, false)
	if err != nil {
		w.warn(ctx, "the kubelet could not bring a pod to where it should be; it tries again", pod, err)
		return earliest(wait, retryDelay), false
	}
	return earliest(wait, reported, w.untilDeadline(pod)), false
}

// judge ends the pod when its time is over, or when somebody else has said that it has ended.
func (w *worker) judge(pod *corev1.Pod) {
	if w.ended || pod.DeletionTimestamp != nil {
		return
	}
	w.ended = finished(pod)
	if w.ended {
		return
	}
	if e := w.evicted(); e != nil {
		w.ended = true
		w.verdict = &corev1.PodStatus{Phase: corev1.PodFailed, Reason: e.Reason, Message: e.Message}
		return
	}
	if w.pastDeadline(pod) {
		w.ended = true
		w.verdict = &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}
		w.kubelet.recorder.Event(pod, corev1.EventTypeNormal, w.verdict.Reason, w.verdict.Message)
	}
}

// warn logs what a pod waits for. Its user learns it from the pod's events and status; the level is for who runs the node.
func (w *worker) warn(ctx context.Context, what string, pod *corev1.Pod, err error, args ...any) {
	if ctx.Err() == nil {
		w.kubelet.config.Logger.Info(what, append([]any{"namespace", pod.Namespace, "pod", pod.Name, "error", err}, args...)...)
	}
}

// report reports the status of the pod as the runtime shows it now. See podStatus for final.
func (w *worker) report(ctx context.Context, pod *corev1.Pod, final bool) (wait time.Duration) {
	now, err := w.observe(ctx, pod)
	if err != nil {
		return retryDelay
	}
	w.reportObserved(pod, now, final)
	return 0
}

func (w *worker) reportObserved(pod *corev1.Pod, now observed, final bool) {
	status := w.statusOf(pod, now, final)
	w.kubelet.status.set(pod, status)
	if !w.ran && status.Phase == corev1.PodRunning {
		w.ran = true
		w.kubelet.metrics.running(w.began)
	}
}

func (w *worker) statusOf(pod *corev1.Pod, now observed, final bool) corev1.PodStatus {
	k := w.kubelet
	return w.podStatus(k.allocations.Allocated(k.status.latest(pod)), now, final)
}

// advance starts whatever should run and does not, and ends what should not run any more.
func (w *worker) advance(ctx context.Context, pod *corev1.Pod, now observed) (wait time.Duration, err error) {
	hold, release := w.holdable(ctx)
	defer release()
	pod = w.allocate(pod)
	again := time.Duration(0)
	if w.static {
		if err := w.kubelet.keepMirror(ctx, pod); err != nil {
			w.warn(ctx, "the kubelet could not write the mirror of a static pod; the pod runs all the same, and it tries again", pod, err)
			again = retryDelay
		}
	}
	if now.sandbox == nil {
		w.kubelet.status.arrived(pod, w.statusOf(pod, now, false)) // people see that the pod is here, however long it takes to start
	}
	if wait, err := w.prepare(hold, pod); err != nil || wait > 0 {
		if hold.Err() != nil {
			return 0, nil // the pod is to end
		}
		return earliest(wait, again), err
	}
	todo := compute(pod, now)
	switch {
	case todo.end:
		w.finish() // sidecars end with the containers they serve
		return 0, nil
	case todo.restartAll:
		return w.restartAll(ctx, pod, now)
	}
	for _, k := range todo.kill {
		if err := w.killContainer(hold, pod, k); err != nil {
			return 0, fmt.Errorf("stop container %s: %w", k.spec.Name, err)
		}
		if k.container.Requested != k.spec.Image {
			delete(w.backoff, k.spec.Name) // what has failed was another container
		}
		if now.healthOf(k.container).Failed != "" { // it backs off like one that has crashed
			ended := *k.container
			ended.State, ended.Finished = ContainerExited, time.Now()
			now.containers[k.spec.Name] = &ended
		}
	}
	l := &launch{worker: w, pod: pod, now: now, hold: hold, images: map[string]*imageAnswer{}}
	if todo.sandbox {
		w.prepared.sandbox = nil // what it is made of may have changed
	}
	if len(todo.ephemeral)+len(todo.init)+len(todo.start) > 0 {
		l.secrets = w.pullSecrets(hold, pod)
		if l.sandbox, err = w.sandboxOptions(hold, pod); err != nil {
			w.kubelet.recorder.Eventf(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
			return 0, fmt.Errorf("prepare the sandbox: %w", err)
		}
	}
	if todo.sandbox {
		if len(todo.init) > 0 {
			l.prefetch(todo.init[:1])
		} else {
			l.prefetch(todo.start)
		}
		if now, err = w.makeSandbox(ctx, hold, pod, now, *l.sandbox); err != nil {
			if hold.Err() != nil {
				return 0, nil
			}
			return 0, err
		}
		l.now = now
	}
	l.pod = w.addressed(pod, now)
	if err := w.openHostPorts(ctx, l.pod, now); err != nil {
		return 0, err
	}
	wait, err = w.resize(ctx, pod, now)
	return earliest(wait, again, l.startAll(ctx, todo)), err
}

// startAll starts containers in upstream's order.
func (l *launch) startAll(ctx context.Context, todo actions) (wait time.Duration) {
	for _, c := range todo.ephemeral {
		wait = earliest(wait, l.start(ctx, c))
	}
	for _, c := range todo.init {
		again := l.restart(ctx, c)
		wait = earliest(wait, again)
		if again > 0 && !sidecar(c) {
			return wait
		}
		if again == 0 && sidecar(c) {
			l.signal() // what comes behind it may not have to wait
		}
	}
	for _, c := range todo.start {
		wait = earliest(wait, l.restart(ctx, c))
	}
	return wait
}

// restart starts a container, unless it backs off from a crash.
func (l *launch) restart(ctx context.Context, c *corev1.Container) (wait time.Duration) {
	last := l.now.newest(c.Name)
	crashed := last != nil && last.State == ContainerExited && last.Requested == c.Image
	if crashed && !l.waiting[c.Name].backsOff(c.Image) {
		if left := time.Until(l.backoff.until(last)); left > 0 {
			delete(l.waiting, c.Name)
			l.kubelet.recorder.Eventf(containerReference(l.pod, c), corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s", c.Name, fullName(l.pod))
			return left
		}
	}
	if wait = l.start(ctx, c); crashed && (wait == 0 || l.waiting[c.Name].hasBegun()) {
		l.backoff.restarted(c.Name)
	}
	return wait
}

// makeSandbox makes a sandbox, in place of a dead one if there is one. What still runs in that ends as in a pod that is deleted: with
// its hooks and its grace, which hold may cut short.
func (w *worker) makeSandbox(ctx, hold context.Context, pod *corev1.Pod, now observed, options SandboxOptions) (observed, error) {
	runtime, recorder := w.kubelet.config.Runtime, w.kubelet.recorder
	if now.sandbox != nil {
		recorder.Event(pod, corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		if err := w.stopAll(hold, pod, now, specGrace(pod)); err != nil {
			return now, fmt.Errorf("stop the dead sandbox: %w", err)
		}
	}
	w.kubelet.metrics.sandboxStarted()
	var err error
	if now.sandbox, err = runtime.RunSandbox(ctx, pod, options); err != nil {
		if why := runtime.Ready(ctx); why != nil && !pod.Spec.HostNetwork {
			recorder.Eventf(pod, corev1.EventTypeWarning, "NetworkNotReady", "network is not ready: %v", why)
			return now, fmt.Errorf("network is not ready: %w", why)
		}
		recorder.Eventf(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
		return now, fmt.Errorf("create the sandbox: %w", err)
	}
	for name, c := range now.containers { // they were the old sandbox's
		now.previous[name] = c
	}
	now.containers = map[string]*Container{}
	return now, nil
}

// openHostPorts lets packets for ports of the node reach the pod.
func (w *worker) openHostPorts(ctx context.Context, pod *corev1.Pod, now observed) error {
	ports := w.kubelet.config.Parts.HostPorts
	if ports == nil || w.prepared.ported == now.sandbox.ID || pod.Spec.HostNetwork || !wantsHostPorts(pod) {
		return nil
	}
	var ips []netip.Addr
	for _, ip := range now.sandbox.IPs {
		if addr, err := netip.ParseAddr(ip); err == nil {
			ips = append(ips, addr)
		}
	}
	if err := ports.Set(ctx, pod, ips); err != nil {
		w.kubelet.recorder.Eventf(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: open host ports: %v", err)
		return fmt.Errorf("open host ports: %w", err)
	}
	w.prepared.ported = now.sandbox.ID
	return nil
}

func wantsHostPorts(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if slices.ContainsFunc(containers[i].Ports, func(p corev1.ContainerPort) bool { return p.HostPort > 0 }) {
				return true
			}
		}
	}
	return false
}

// restartAll begins a pod anew in its sandbox: what runs is killed, without much grace and without hooks, and all containers are
// removed, the one whose end has asked for it last, so that a kubelet that is started meanwhile carries on.
func (w *worker) restartAll(ctx context.Context, pod *corev1.Pod, now observed) (wait time.Duration, err error) {
	runtime, last := w.kubelet.config.Runtime, trigger(pod, now)
	w.reportObserved(pod, now, false)
	var failed error
	for _, c := range now.containers {
		if c.State == ContainerRunning && !ephemeral(pod, c.Name) {
			failed = errors.Join(failed, runtime.StopContainer(ctx, c.ID, minimumGrace))
		}
	}
	if failed != nil {
		return 0, fmt.Errorf("stop the containers of a pod that begins anew: %w", failed)
	}
	if left := time.Until(w.backoff.until(last)); left > 0 {
		return left, nil
	}
	w.backoff.restarted(last.Name)
	w.report(ctx, pod, false) // what has ended is told before it is gone
	for _, c := range now.containers {
		if c != last && !ephemeral(pod, c.Name) {
			failed = errors.Join(failed, runtime.RemoveContainer(ctx, c.ID))
		}
	}
	if failed == nil {
		failed = runtime.RemoveContainer(ctx, last.ID)
	}
	if failed != nil {
		return 0, fmt.Errorf("remove the containers of a pod that begins anew: %w", failed)
	}
	w.signal()
	return 0, nil
}

// finish notes that the pod has nothing left to do. The next round ends what still runs.
func (w *worker) finish() {
	w.ended = true
	w.signal()
}

// reported finds what the pod's status says of a container; nil when it says nothing.
func reported(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		if s := statusOf(statuses, container); s != nil {
			return s
		}
	}
	return nil
}

func (w *worker) untilDeadline(pod *corev1.Pod) time.Duration {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return 0
	}
	return max(time.Millisecond, time.Duration(*pod.Spec.ActiveDeadlineSeconds)*time.Second-time.Since(startTime(pod, w.began)))
}

func (w *worker) pastDeadline(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && w.untilDeadline(pod) <= time.Millisecond
}
