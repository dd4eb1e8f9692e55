package prober

import (
	"container/heap"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/probe"
)

// probeKind is what a probe is for.
type probeKind uint8

const (
	startupProbe probeKind = iota
	readinessProbe
	livenessProbe
	probeKinds
)

func (k probeKind) String() string {
	return [...]string{"Startup", "Readiness", "Liveness"}[k]
}

// initialVerdict is what is taken for true before the first answer: nothing has started, nothing is ready, all is alive.
var initialVerdict = [probeKinds]probe.Result{probe.Unknown, probe.Failure, probe.Success}

// probeTask is one probe of one attempt of a container. It is guarded by Prober.mu; while it is being asked it is not in the
// queue, so nobody asks twice at once.
type probeTask struct {
	pod    types.UID
	id     string // of the container
	kind   probeKind
	spec   *corev1.Probe
	began  time.Time // the container
	counts *probeCounts

	container *corev1.Container // newest
	ip        string
	next      time.Time // when it is asked
	index     int       // in the queue; -1: not there
	gone      bool      // its answers no longer count
	verdict   probe.Result
	last      probe.Result // the last answer, and how often it has come in a row
	inARow    int32
}

func (t *probeTask) period() time.Duration { return time.Duration(t.spec.PeriodSeconds) * time.Second }

// firstTry is the age at which a container is first asked.
func (t *probeTask) firstTry() time.Duration {
	if t.spec.Exec != nil {
		return firstExec
	}
	return firstTry
}

// after is when a probe that was asked at start is asked again: a period later, at once when the answer took longer.
func (t *probeTask) after(start time.Time) time.Time {
	next := start.Add(t.period())
	if now := time.Now(); next.Before(now) {
		return now
	}
	return next
}

// early says whether a container has so recently begun that a failure counts for nothing.
func (t *probeTask) early(at time.Time) bool {
	return t.kind != livenessProbe && t.spec.InitialDelaySeconds == 0 && at.Before(t.began.Add(settleTime))
}

// health is what the verdicts say together.
func (c *probedContainer) health() Health {
	h := Health{Started: true, Ready: true}
	if t := c.tasks[startupProbe]; t != nil {
		h.Started = t.verdict == probe.Success
		if t.verdict == probe.Failure {
			h.Failed, h.Grace = "failed startup probe", t.spec.TerminationGracePeriodSeconds
		}
	}
	if t := c.tasks[readinessProbe]; t != nil {
		h.Ready = t.verdict == probe.Success
	}
	h.Ready = h.Ready && h.Started
	if t := c.tasks[livenessProbe]; t != nil && t.verdict == probe.Failure {
		h.Failed, h.Grace = "failed liveness probe", t.spec.TerminationGracePeriodSeconds
	}
	return h
}

// probeQueue has the probes that wait, the next one first.
type probeQueue []*probeTask

var _ heap.Interface = (*probeQueue)(nil)

func (q probeQueue) Len() int           { return len(q) }
func (q probeQueue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }

func (q probeQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *probeQueue) Push(t any) {
	t.(*probeTask).index = len(*q)
	*q = append(*q, t.(*probeTask))
}

// Pop implements heap.Interface.
func (q *probeQueue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.index = -1
	return t
}
