package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// writersLimit bounds how many statuses are being written at once.
const writersLimit = 16

// statusManager writes pod statuses, the newest of each pod, of several pods at once and of each in the order in which they
// changed. A status that changes while it waits is written once.
type statusManager struct {
	client  clients
	logger  *slog.Logger
	running *group        // of whoever owns the manager: the writers run in it
	slots   chan struct{} // holds one token for each writer

	mu   sync.Mutex
	ctx  context.Context // nil until begin: statuses wait
	pods map[types.UID]*podRecord
}

// podRecord is what is known and wanted of one pod's status.
type podRecord struct {
	pod    *corev1.Pod // the newest object known, from the watch or from a write; of a static pod its mirror, nil when there is none
	static bool
	want   corev1.PodStatus
	wants  bool          // want has been set
	queued bool          // want differs from what the API server has, and a writer will see to it
	idle   chan struct{} // closed when want has been written; nil when nobody waits
}

func newStatusManager(client clients, logger *slog.Logger, running *group) *statusManager {
	return &statusManager{client: client, logger: logger, running: running, slots: make(chan struct{}, writersLimit), pods: map[types.UID]*podRecord{}}
}

// begin lets statuses be written until ctx ends.
func (m *statusManager) begin(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ctx = ctx
}

// set says what a pod's status should be. pod is the object that status was made of.
func (m *statusManager) set(pod *corev1.Pod, status corev1.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.pods[pod.UID]
	if r == nil {
		r = m.recordLocked(pod)
	}
	r.see(pod)
	r.want, r.wants = status, true
	if !r.queued && !r.asWanted() {
		m.queueLocked(pod.UID, r)
	}
}

func (m *statusManager) recordLocked(pod *corev1.Pod) *podRecord {
	r := &podRecord{pod: pod}
	if FromManifest(pod) {
		r.pod, r.static = nil, true
	}
	m.pods[pod.UID] = r
	return r
}

// see takes note of an object that is newer than the one known.
func (r *podRecord) see(pod *corev1.Pod) {
	if !r.static && newer(pod, r.pod) {
		r.pod = pod
	}
}

// mirror says which object of the API shows a static pod. One that was there before the kubelet knows when things have begun.
func (m *statusManager) mirror(pod, mirror *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.pods[pod.UID]
	if r == nil {
		r = m.recordLocked(pod)
	}
	switch {
	case r.pod == nil:
		r.want = remember(r.want, mirror.Status)
		r.pod = mirror
	case r.pod.UID != mirror.UID || newer(mirror, r.pod):
		r.pod = mirror
	}
	if !r.queued && r.wants && !r.asWanted() {
		m.queueLocked(pod.UID, r)
	}
}

// remember takes over from an older status when things have begun that are as they were.
func remember(status, old corev1.PodStatus) corev1.PodStatus {
	if old.StartTime == nil {
		return status
	}
	status = *status.DeepCopy()
	status.StartTime = old.StartTime
	for _, c := range old.Conditions {
		at := slices.IndexFunc(status.Conditions, func(have corev1.PodCondition) bool { return have.Type == c.Type })
		if at < 0 {
			status.Conditions = append(status.Conditions, c)
		} else if status.Conditions[at].Status == c.Status {
			status.Conditions[at].LastTransitionTime = c.LastTransitionTime
		}
	}
	return status
}

// current takes note of a newer object and says whether its status is as the kubelet wants it.
func (m *statusManager) current(pod *corev1.Pod) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.pods[pod.UID]
	if r == nil {
		return false
	}
	if r.static {
		return false
	}
	r.see(pod)
	return pod.Status.Phase == r.want.Phase && apiequality.Semantic.DeepEqual(pod.Status, overlay(pod.Status, r.want))
}

// latest returns the pod with what the kubelet last wanted its status to be, which the watch may not have brought back yet.
// Without it, times would be drawn anew by every look at a pod whose last status is still under way. The status is shared: never
// change what it points to.
func (m *statusManager) latest(pod *corev1.Pod) *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.pods[pod.UID]
	if r == nil {
		return pod
	}
	r.see(pod)
	current := *pod
	switch {
	case r.static:
		current.Status = r.want
	case r.wants:
		current.Status = overlay(r.pod.Status, r.want)
	default:
		current.Status = r.pod.Status
	}
	return &current
}

func (r *podRecord) asWanted() bool {
	if r.pod == nil {
		return true // there is nothing to write to
	}
	return apiequality.Semantic.DeepEqual(r.pod.Status, overlay(r.pod.Status, r.want))
}

// overlay puts what the kubelet says of a pod over what the API server has, and leaves alone what others say. A pod that has
// ended stays so. The result shares with both all but the list of conditions.
func overlay(theirs, ours corev1.PodStatus) corev1.PodStatus {
	status := theirs
	status.Conditions = slices.Clone(theirs.Conditions)
	if !finished(&corev1.Pod{Status: theirs}) {
		status.Phase, status.Reason, status.Message = ours.Phase, ours.Reason, ours.Message
	}
	status.ObservedGeneration, status.StartTime = ours.ObservedGeneration, ours.StartTime
	status.HostIP, status.HostIPs, status.PodIP, status.PodIPs = ours.HostIP, ours.HostIPs, ours.PodIP, ours.PodIPs
	status.InitContainerStatuses, status.ContainerStatuses = ours.InitContainerStatuses, ours.ContainerStatuses
	status.EphemeralContainerStatuses = ours.EphemeralContainerStatuses
	status.AllocatedResources, status.Resources = ours.AllocatedResources, ours.Resources
	for _, kind := range passing {
		if !slices.ContainsFunc(ours.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind }) {
			status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
		}
	}
	for _, c := range ours.Conditions {
		if !slices.Contains(owned, c.Type) && c.Type != corev1.DisruptionTarget {
			continue
		}
		at := slices.IndexFunc(status.Conditions, func(have corev1.PodCondition) bool { return have.Type == c.Type })
		if at < 0 {
			status.Conditions = append(status.Conditions, c)
		} else if c.Type != corev1.DisruptionTarget { // whoever said it first is right
			status.Conditions[at] = c
		}
	}
	return status
}

func (m *statusManager) queueLocked(uid types.UID, r *podRecord) {
	r.queued = true
	if ctx := m.ctx; ctx != nil && ctx.Err() == nil {
		m.running.Go(func() { m.keep(ctx, uid, r) })
	}
}

// written waits until the wanted status of a pod has been written, and says whether it was before ctx ended.
func (m *statusManager) written(ctx context.Context, uid types.UID) bool {
	m.mu.Lock()
	r := m.pods[uid]
	if r == nil || !r.queued {
		m.mu.Unlock()
		return true
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	m.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

func (m *statusManager) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.pods[uid]; r != nil {
		r.done()
		delete(m.pods, uid)
	}
}

func (r *podRecord) done() {
	r.queued = false
	if r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// keep writes a pod's status until it is as wanted.
func (m *statusManager) keep(ctx context.Context, uid types.UID, r *podRecord) {
	for {
		select {
		case m.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		again := m.writeNewest(ctx, uid, r)
		<-m.slots
		if !again {
			return
		}
	}
}

// writeNewest writes what is wanted now, and says whether that has changed meanwhile.
func (m *statusManager) writeNewest(ctx context.Context, uid types.UID, r *podRecord) (again bool) {
	m.mu.Lock()
	if m.pods[uid] != r || !r.queued {
		m.mu.Unlock()
		return false
	}
	pod, want := r.pod, overlay(r.pod.Status, r.want)
	m.mu.Unlock()

	updated, err := m.write(ctx, pod, want)
	if ctx.Err() != nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // deleted, or replaced by another of the name
		r.done()
		return false
	case err != nil:
		m.logger.Warn("cannot write pod status", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
		time.AfterFunc(retryDelay, func() { m.retry(uid, r) })
		return false
	}
	if newer(updated, r.pod) {
		r.pod = updated
	}
	if r.asWanted() {
		r.done()
		return false
	}
	return true
}

func (m *statusManager) retry(uid types.UID, r *podRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods[uid] == r && r.queued {
		m.queueLocked(uid, r)
	}
}

// write sends what differs. The uid in the patch makes it fail for another pod of the same name.
func (m *statusManager) write(ctx context.Context, pod *corev1.Pod, want corev1.PodStatus) (*corev1.Pod, error) {
	before, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: ""}, Status: pod.Status})
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: want})
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("compare statuses: %w", err)
	}
	return m.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}

// newer compares two versions of one object.
func newer(a, b *corev1.Pod) bool {
	x, errX := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, errY := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errX == nil && (errY != nil || x > y)
}
