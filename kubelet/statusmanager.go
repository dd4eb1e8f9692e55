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
	"k8s.io/client-go/kubernetes"
)

// statusManager writes pod statuses, the newest of each pod, one pod at a time in the order in which they changed. A
// status that changes while it waits is written once.
type statusManager struct {
	client kubernetes.Interface
	logger *slog.Logger
	wake   chan struct{}

	mu    sync.Mutex
	pods  map[types.UID]*podRecord
	dirty []types.UID
}

// podRecord is what is known and wanted of one pod's status.
type podRecord struct {
	pod    *corev1.Pod // the newest object known, from the watch or from a write
	want   corev1.PodStatus
	queued bool
	idle   chan struct{} // closed when want has been written; nil when nobody waits
}

func newStatusManager(client kubernetes.Interface, logger *slog.Logger) *statusManager {
	return &statusManager{client: client, logger: logger, wake: make(chan struct{}, 1), pods: map[types.UID]*podRecord{}}
}

// set says what a pod's status should be. pod is the object that status was made of.
func (m *statusManager) set(pod *corev1.Pod, status corev1.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.pods[pod.UID]
	if r == nil {
		r = &podRecord{pod: pod}
		m.pods[pod.UID] = r
	} else if newer(pod, r.pod) {
		r.pod = pod
	}
	r.want = status
	if !r.queued && !r.asWanted() {
		m.queue(pod.UID, r)
	}
}

// latest returns the pod with what the kubelet last wanted its status to be, which the watch may not have brought back yet.
// Without it, times would be drawn anew by every look at a pod whose last status is still under way.
func (m *statusManager) latest(pod *corev1.Pod) *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.pods[pod.UID]
	if r == nil {
		return pod
	}
	if newer(pod, r.pod) {
		r.pod = pod
	}
	current := *pod
	current.Status = overlay(r.pod.Status, r.want)
	return &current
}

func (r *podRecord) asWanted() bool {
	return apiequality.Semantic.DeepEqual(r.pod.Status, overlay(r.pod.Status, r.want))
}

// overlay puts what the kubelet says of a pod over what the API server has, and leaves alone what others say. A pod that has
// ended stays so.
func overlay(theirs, ours corev1.PodStatus) corev1.PodStatus {
	status := *theirs.DeepCopy()
	if !finished(&corev1.Pod{Status: theirs}) {
		status.Phase, status.Reason, status.Message = ours.Phase, ours.Reason, ours.Message
	}
	status.ObservedGeneration, status.StartTime = ours.ObservedGeneration, ours.StartTime
	status.HostIP, status.HostIPs, status.PodIP, status.PodIPs = ours.HostIP, ours.HostIPs, ours.PodIP, ours.PodIPs
	status.InitContainerStatuses, status.ContainerStatuses = ours.InitContainerStatuses, ours.ContainerStatuses
	for _, c := range ours.Conditions {
		if !slices.Contains(owned, c.Type) {
			continue
		}
		at := slices.IndexFunc(status.Conditions, func(have corev1.PodCondition) bool { return have.Type == c.Type })
		if at < 0 {
			status.Conditions = append(status.Conditions, c)
		} else {
			status.Conditions[at] = c
		}
	}
	return status
}

func (m *statusManager) queue(uid types.UID, r *podRecord) {
	r.queued = true
	m.dirty = append(m.dirty, uid)
	select {
	case m.wake <- struct{}{}:
	default:
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

func (m *statusManager) run(ctx context.Context) {
	for {
		m.mu.Lock()
		var uid types.UID
		var record *podRecord
		for record == nil && len(m.dirty) > 0 {
			uid, m.dirty = m.dirty[0], m.dirty[1:]
			record = m.pods[uid]
		}
		if record == nil {
			m.mu.Unlock()
			select {
			case <-ctx.Done():
				return
			case <-m.wake:
			}
			continue
		}
		pod, want := record.pod, overlay(record.pod.Status, record.want)
		m.mu.Unlock()

		updated, err := m.write(ctx, pod, want)
		if ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // deleted, or replaced by another of the name
			record.done()
		case err != nil:
			m.logger.Warn("cannot write pod status", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
			time.AfterFunc(retryDelay, func() { m.retry(uid, record) })
		default:
			if newer(updated, record.pod) {
				record.pod = updated
			}
			if record.asWanted() {
				record.done()
			} else {
				m.queue(uid, record)
			}
		}
		m.mu.Unlock()
	}
}

func (m *statusManager) retry(uid types.UID, r *podRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods[uid] == r && r.queued {
		m.queue(uid, r)
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
