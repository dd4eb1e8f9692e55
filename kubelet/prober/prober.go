package prober

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/probe"
)

// Prober asks the containers of a node how they are, as their probes say, and keeps the answers. It is told what runs by Look,
// and tells of changes by Config.Changed, on which the pod's worker looks again.
//
// A probe that is not being asked is an entry in a heap; one that is has a goroutine. So a probe that hangs delays no other, and
// 3,000 of them at rest need one goroutine and a timer.
type Prober struct {
	config Config
	began  time.Time

	wake chan struct{} // holds one token when the first of the queue has changed

	mu    sync.Mutex
	pods  map[types.UID]*probedPod
	queue probeQueue
}

// probeRetries is how often a question that could not be asked is asked at once.
const probeRetries = 3

// A container that was just started is asked whether it has started or is ready more often than it wants: a failure in its first
// second counts for nothing, and is followed by the next try soon. A period is at least a second, and ten by default, so that a
// server that listens after 20 ms would otherwise wait long to be found ready.
const (
	settleTime = time.Second
	firstTry   = 25 * time.Millisecond
	firstExec  = 200 * time.Millisecond // commands cost a process
)

// slack is how late a probe may be asked, so that many need few timers.
const slack = 5 * time.Millisecond

type probedPod struct {
	pod        *corev1.Pod // newest object
	containers map[string]*probedContainer
}

// probedContainer is a container with probes: its attempt that runs, and what was counted over all attempts.
type probedContainer struct {
	id     string
	tasks  [probeKinds]*probeTask // nil: no such probe, or it is no longer asked
	counts [probeKinds]*probeCounts
}

// New makes a Prober, which asks nobody before Run.
func New(config Config) *Prober {
	return &Prober{config: config, began: time.Now(), wake: make(chan struct{}, 1), pods: map[types.UID]*probedPod{}}
}

// Look takes note of what runs of a pod, by container name, and returns the health of its containers that run and have probes, by container ID.
// ending says that the pod ends: only readiness is asked for any more. ip is the pod's.
func (p *Prober) Look(pod *corev1.Pod, running map[string]Running, ip string, ending bool) map[string]Health {
	if !IsProbed(pod) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pods[pod.UID]
	if known == nil {
		known = &probedPod{containers: map[string]*probedContainer{}}
		p.pods[pod.UID] = known
	}
	known.pod = pod
	all := map[string]Health{}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if c.StartupProbe == nil && c.ReadinessProbe == nil && c.LivenessProbe == nil {
				continue
			}
			have, runs := running[c.Name]
			if !runs {
				p.dropLocked(known.containers[c.Name])
				continue
			}
			all[have.ID] = p.lookAtLocked(known, c, have, ip, ending)
		}
	}
	return all
}

// IsProbed reports whether a pod has any probes.
func IsProbed(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if c := &containers[i]; c.StartupProbe != nil || c.ReadinessProbe != nil || c.LivenessProbe != nil {
				return true
			}
		}
	}
	return false
}

func (p *Prober) lookAtLocked(known *probedPod, c *corev1.Container, have Running, ip string, ending bool) Health {
	container := known.containers[c.Name]
	if container == nil {
		container = &probedContainer{}
		known.containers[c.Name] = container
	}
	if container.id != have.ID {
		p.dropLocked(container)
		p.takeUpLocked(known.pod, container, c, have)
	}
	for kind, t := range container.tasks {
		if t == nil {
			continue
		}
		t.container, t.ip = c, ip
		if ending && probeKind(kind) != readinessProbe {
			p.unqueueLocked(t)
			t.verdict, t.gone = probe.Success, true
		}
	}
	return container.health()
}

// takeUpLocked begins to ask a container. What its status says of this very container, because it was started before the kubelet
// was, is believed until an answer says otherwise.
func (p *Prober) takeUpLocked(pod *corev1.Pod, container *probedContainer, c *corev1.Container, have Running) {
	container.id = have.ID
	told := statusOf(pod, c.Name)
	if told != nil && told.ContainerID != have.ID {
		told = nil
	}
	for kind, spec := range [probeKinds]*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if spec == nil {
			continue
		}
		if container.counts[kind] == nil {
			container.counts[kind] = newProbeCounts()
		}
		t := &probeTask{
			pod: pod.UID, container: c, id: have.ID, kind: probeKind(kind), spec: spec, counts: container.counts[kind],
			began: have.Started, index: -1, verdict: initialVerdict[kind],
		}
		switch {
		case told == nil:
		case t.kind == startupProbe && told.Started != nil && *told.Started, t.kind == readinessProbe && told.Ready:
			t.verdict = probe.Success
		}
		container.tasks[kind] = t
	}
	p.beginLocked(container, told != nil)
}

// beginLocked queues what may be asked now: the startup probe, and behind its success the others.
func (p *Prober) beginLocked(container *probedContainer, before bool) {
	if t := container.tasks[startupProbe]; t != nil && t.verdict != probe.Success {
		p.queueLocked(t, p.first(t, before))
		return
	}
	for _, kind := range []probeKind{readinessProbe, livenessProbe} {
		if t := container.tasks[kind]; t != nil {
			p.queueLocked(t, p.first(t, before))
		}
	}
}

// first is when a probe is asked for the first time. before says that the container was asked by the kubelet's predecessor.
func (p *Prober) first(t *probeTask, before bool) time.Time {
	now := time.Now()
	if before && now.Sub(p.began) < t.period() { // not all at once after a restart
		return now.Add(time.Duration(rand.Float64() * float64(t.period())))
	}
	at := t.began.Add(time.Duration(t.spec.InitialDelaySeconds) * time.Second)
	if t.spec.InitialDelaySeconds == 0 {
		at = t.began.Add(settleTime)
		if t.kind != livenessProbe {
			at = t.began.Add(t.firstTry())
		}
	}
	if at.Before(now) {
		return now
	}
	return at
}

// dropLocked ends the probes of a container that no longer runs.
func (p *Prober) dropLocked(container *probedContainer) {
	if container == nil {
		return
	}
	for kind, t := range container.tasks {
		if t != nil {
			p.unqueueLocked(t)
			t.gone = true
			container.tasks[kind] = nil
		}
	}
	container.id = ""
}

// Forget ends the probes of a pod.
func (p *Prober) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.pods[uid]; known != nil {
		for _, container := range known.containers {
			p.dropLocked(container)
		}
		delete(p.pods, uid)
	}
}

// Run asks until ctx ends, and waits for those who are being asked.
func (p *Prober) Run(ctx context.Context) {
	var asked sync.WaitGroup
	defer asked.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		p.mu.Lock()
		wait := time.Hour
		for len(p.queue) > 0 {
			t := p.queue[0]
			if wait = time.Until(t.next); wait > 0 {
				break
			}
			p.unqueueLocked(t)
			q := Question{kind: t.kind, Spec: t.spec, Pod: p.pods[t.pod].pod, Container: t.container, ID: t.id, IP: t.ip}
			asked.Go(func() { p.probe(ctx, t, q) })
			wait = time.Hour
		}
		p.mu.Unlock()
		timer.Reset(max(wait, slack))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.wake:
		}
	}
}

// probe asks once and draws the conclusions.
func (p *Prober) probe(ctx context.Context, t *probeTask, q Question) {
	start := time.Now()
	var result probe.Result
	var output string
	var err error
	for range probeRetries {
		if result, output, err = p.config.Ask(ctx, q); err == nil {
			break
		}
	}
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	told := !t.gone
	early := told && t.early(start) && result == probe.Failure && err == nil
	changed := false
	switch {
	case !told:
	case early:
		next := t.began.Add(max(t.firstTry(), 2*start.Sub(t.began))) // its age doubles from try to try
		if settled := t.began.Add(settleTime); next.After(settled) {
			next = settled
		}
		p.queueLocked(t, next)
	case err != nil:
		p.queueLocked(t, t.after(start))
	default:
		t.counts.add(result, time.Since(start))
		changed = p.concludeLocked(t, start, result)
	}
	p.mu.Unlock()
	if !told || early {
		return
	}
	switch {
	case err != nil:
		p.config.Event(q.Pod, q.Container, "Unhealthy", t.kind.String()+" probe errored and resulted in "+result.String()+" state: "+err.Error())
	case result == probe.Failure:
		p.config.Event(q.Pod, q.Container, "Unhealthy", t.kind.String()+" probe failed: "+output)
	case result == probe.Warning:
		p.config.Event(q.Pod, q.Container, "ProbeWarning", t.kind.String()+" probe warning: "+output)
	}
	if changed {
		p.config.Changed(t.pod)
	}
}

// concludeLocked counts an answer and says whether it has changed the verdict.
func (p *Prober) concludeLocked(t *probeTask, start time.Time, result probe.Result) (changed bool) {
	if result == probe.Warning {
		result = probe.Success
	}
	if result != t.last {
		t.last, t.inARow = result, 0
	}
	t.inARow++
	threshold := t.spec.SuccessThreshold
	if result != probe.Success {
		threshold = t.spec.FailureThreshold
	}
	if t.inARow >= threshold && t.verdict != result {
		t.verdict, changed = result, true
	}
	switch {
	case t.kind != readinessProbe && t.verdict == probe.Failure:
		return changed // it will be killed; there is nothing more to ask
	case t.kind == startupProbe && t.verdict == probe.Success:
		if known := p.pods[t.pod]; known != nil {
			p.beginLocked(known.containers[t.container.Name], false)
		}
		return changed
	}
	p.queueLocked(t, t.after(start))
	return changed
}

func (p *Prober) queueLocked(t *probeTask, at time.Time) {
	p.unqueueLocked(t)
	t.next = at
	heap.Push(&p.queue, t)
	if t.index == 0 {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

func (p *Prober) unqueueLocked(t *probeTask) {
	if t.index >= 0 {
		heap.Remove(&p.queue, t.index)
	}
}

// statusOf finds what the pod's status says of a container that may have probes; nil when it says nothing.
func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == container {
				return &statuses[i]
			}
		}
	}
	return nil
}
