package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"vigil/internal/panics"
	"vigil/kubelet/internal/resourceversion"
)

const (
	// writersLimit bounds how many statuses are being written at once.
	writersLimit = 16
	// arrivalDelay is how long the status of a pod that has just arrived waits for the next one. A pod that has started by then is
	// written once; otherwise people see after that long what it waits for.
	arrivalDelay = 100 * time.Millisecond
)

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
	pod    *apiPod // the newest object known, from the watch or from a write; of a static pod its mirror, nil when there is none
	static bool
	want   corev1.PodStatus
	wants  bool          // want has been set
	sets   int           // how often
	held   bool          // want is that of a pod that has just arrived, and waits for arrivalDelay or for the next
	queued bool          // want differs from what the API server has, and a writer will see to it
	idle   chan struct{} // closed when want has been written; nil when nobody waits
}

// apiPod is what a record keeps of a pod's object: not its spec.
type apiPod struct {
	namespace, name string
	uid             types.UID
	version         string           // resource version
	status          corev1.PodStatus // shared: never change what it points to
}

func apiPodOf(pod *corev1.Pod) *apiPod {
	return &apiPod{namespace: pod.Namespace, name: pod.Name, uid: pod.UID, version: pod.ResourceVersion, status: pod.Status}
}

// object returns the pod with what is known of it.
func (p *apiPod) object() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name, UID: p.uid, ResourceVersion: p.version}, Status: p.status}
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
	r := m.setLocked(pod, status)
	switch {
	case r.held:
		m.queueLocked(pod.UID, r)
	case !r.queued && !r.asWanted():
		m.queueLocked(pod.UID, r)
	}
}

// arrived is like set, for the status of a pod that nothing was started of yet: it is written when no other has followed for arrivalDelay.
func (m *statusManager) arrived(pod *corev1.Pod, status corev1.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.setLocked(pod, status)
	if r.queued || r.asWanted() {
		return
	}
	r.queued, r.held = true, true
	time.AfterFunc(arrivalDelay, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.pods[pod.UID] == r && r.held {
			m.queueLocked(pod.UID, r)
		}
	})
}

func (m *statusManager) setLocked(pod *corev1.Pod, status corev1.PodStatus) *podRecord {
	r := m.pods[pod.UID]
	if r == nil {
		r = m.recordLocked(pod)
	}
	r.see(pod)
	r.want, r.wants = status, true
	r.sets++
	return r
}

func (m *statusManager) recordLocked(pod *corev1.Pod) *podRecord {
	r := &podRecord{static: FromManifest(pod)}
	if !r.static {
		r.pod = apiPodOf(pod)
	}
	m.pods[pod.UID] = r
	return r
}

// see takes note of an object that is newer than the one known.
func (r *podRecord) see(pod *corev1.Pod) {
	if !r.static && resourceversion.IsOlder(r.pod.version, pod.ResourceVersion) {
		r.pod = apiPodOf(pod)
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
		r.pod = apiPodOf(mirror)
	case r.pod.uid != mirror.UID || resourceversion.IsOlder(r.pod.version, mirror.ResourceVersion):
		r.pod = apiPodOf(mirror)
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
	if r.pod.version == pod.ResourceVersion {
		r.pod.status = pod.Status // it is the same as what a write has answered with, which need not be kept then
	}
	return pod.Status.Phase == r.want.Phase && sameStatus(pod.Status, overlay(pod.Status, r.want))
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
		current.Status = overlay(r.pod.status, r.want)
	default:
		current.Status = r.pod.status
	}
	return &current
}

func (r *podRecord) asWanted() bool {
	if r.pod == nil {
		return true // there is nothing to write to
	}
	return sameStatus(r.pod.status, overlay(r.pod.status, r.want))
}

// sameStatus compares two statuses. In which order their conditions stand is worth no write: others append theirs behind the kubelet's.
func sameStatus(a, b corev1.PodStatus) bool {
	if len(a.Conditions) != len(b.Conditions) {
		return false
	}
	for i := range a.Conditions {
		if other := conditionOf(b.Conditions, a.Conditions[i].Type); other == nil || !apiequality.Semantic.DeepEqual(a.Conditions[i], *other) {
			return false
		}
	}
	a.Conditions, b.Conditions = nil, nil
	return apiequality.Semantic.DeepEqual(a, b)
}

// overlay puts what the kubelet says of a pod over what the API server has, and leaves alone what others say. A pod that has
// ended stays so. The result shares with both all but the list of conditions.
func overlay(theirs, ours corev1.PodStatus) corev1.PodStatus {
	status := theirs
	if !finished(&corev1.Pod{Status: theirs}) {
		status.Phase, status.Reason, status.Message = ours.Phase, ours.Reason, ours.Message
	}
	status.ObservedGeneration, status.StartTime = ours.ObservedGeneration, ours.StartTime
	status.HostIP, status.HostIPs, status.PodIP, status.PodIPs = ours.HostIP, ours.HostIPs, ours.PodIP, ours.PodIPs
	status.InitContainerStatuses, status.ContainerStatuses = ours.InitContainerStatuses, ours.ContainerStatuses
	status.EphemeralContainerStatuses = ours.EphemeralContainerStatuses
	status.AllocatedResources, status.Resources = ours.AllocatedResources, ours.Resources
	status.Conditions = appendOthers(make([]corev1.PodCondition, 0, max(len(theirs.Conditions), len(ours.Conditions))), theirs.Conditions)
	for i := range ours.Conditions {
		c := &ours.Conditions[i]
		switch {
		case slices.Contains(owned, c.Type):
			status.Conditions = append(status.Conditions, *c)
		case c.Type == corev1.DisruptionTarget && conditionOf(theirs.Conditions, c.Type) == nil: // whoever said it first is right
			status.Conditions = append(status.Conditions, *c)
		}
	}
	return status
}

func (m *statusManager) queueLocked(uid types.UID, r *podRecord) {
	r.queued, r.held = true, false
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
	pod, want, sets := r.pod.object(), overlay(r.pod.status, r.want), r.sets
	m.mu.Unlock()

	updated, err := panics.Call(m.logger, panics.PodStatus, func() (*corev1.Pod, error) { return m.write(ctx, pod, want) },
		"namespace", pod.Namespace, "pod", pod.Name)
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
		m.logger.Warn("the kubelet could not write a pod's status; it tries again", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
		time.AfterFunc(retryDelay, func() { m.retry(uid, r) })
		return false
	}
	if resourceversion.IsOlder(r.pod.version, updated.ResourceVersion) {
		r.pod = apiPodOf(updated)
	}
	if r.sets == sets || r.asWanted() { // what the API server has made of it, it would make of it again
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

// write sends what differs. The server need not look for fields it does not know: nobody reads what it would say of them.
func (m *statusManager) write(ctx context.Context, pod *corev1.Pod, want corev1.PodStatus) (*corev1.Pod, error) {
	patch, err := statusPatch(pod, want)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldValidation: metav1.FieldValidationIgnore}
	return m.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, options, "status")
}

// podSchema says how lists of a pod merge.
var podSchema = sync.OnceValues(func() (strategicpatch.PatchMetaFromStruct, error) {
	return strategicpatch.NewPatchMetaFromStruct(corev1.Pod{})
})

// statusPatch makes the strategic merge patch that turns a pod's status into want. The uid in it makes it fail for another pod of the
// same name.
func statusPatch(pod *corev1.Pod, want corev1.PodStatus) ([]byte, error) {
	schema, err := podSchema()
	if err != nil {
		return nil, fmt.Errorf("read the schema of pods: %w", err)
	}
	have := pod.Status
	replaced := replacedLists(&have, &want)
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&have)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	changes, err := strategicpatch.CreateTwoWayMergeMapPatchUsingLookupPatchMeta(map[string]any{"status": before}, map[string]any{"status": after}, schema)
	if err != nil {
		return nil, fmt.Errorf("compare statuses: %w", err)
	}
	if len(replaced) > 0 {
		status, ok := changes["status"].(map[string]any)
		if !ok {
			status = map[string]any{}
			changes["status"] = status
		}
		maps.Copy(status, replaced)
	}
	changes["metadata"] = map[string]any{"uid": string(pod.UID)}
	patch, err := json.Marshal(changes)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return patch, nil
}

// replacedLists takes the statuses of containers out of two statuses, and returns those that want has and that differ, under their names in
// JSON. These lists have no merge key, so the patch has them as they are: they need not be compared field by field. A list that
// want does not have stays where it is.
func replacedLists(have, want *corev1.PodStatus) map[string]any {
	replaced := map[string]any{}
	for _, list := range []struct {
		name       string
		have, want *[]corev1.ContainerStatus
	}{
		{"containerStatuses", &have.ContainerStatuses, &want.ContainerStatuses},
		{"initContainerStatuses", &have.InitContainerStatuses, &want.InitContainerStatuses},
		{"ephemeralContainerStatuses", &have.EphemeralContainerStatuses, &want.EphemeralContainerStatuses},
	} {
		if len(*list.want) == 0 {
			continue
		}
		if !apiequality.Semantic.DeepEqual(*list.have, *list.want) {
			replaced[list.name] = *list.want
		}
		*list.have, *list.want = nil, nil
	}
	return replaced
}
