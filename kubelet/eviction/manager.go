package eviction

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"vigil/internal/panics"
	"vigil/kubelet"
)

// Stats measures, as *stats.Provider does.
type Stats interface {
	// Summary is at most age old; 0 measures now.
	Summary(ctx context.Context, age time.Duration, onlyCPUAndMemory bool) (*statsapi.Summary, error)
	// CountDisks counts now what pods have on disk: a summary has that of the last count, which may be a minute old.
	CountDisks(ctx context.Context) error
	// Layout says whether images are on another file system than the kubelet's files, and writable layers on another than images.
	Layout(ctx context.Context) (separateImages, separateLayers bool, err error)
}

// Pods are those of the node, as *kubelet.Kubelet has them.
type Pods interface {
	// Active are the pods that run or may. The slice is the caller's.
	Active() []*corev1.Pod
	// Evict ends a pod for good and returns when its containers have ended, or with an error when they do not.
	Evict(ctx context.Context, pod types.UID, how kubelet.Eviction) error
}

// Reclaimer takes back what nobody needs. Each may be nil.
type Reclaimer struct {
	Containers func(ctx context.Context) error // removes containers that have ended
	Images     func(ctx context.Context) error // removes images that no container uses
}

// Config says when pods are evicted. Stats, Pods and Node are required.
type Config struct {
	Thresholds       []Threshold   // from Parse
	TransitionPeriod time.Duration // --eviction-pressure-transition-period; 0: 5 min
	MaxPodGrace      time.Duration // --eviction-max-pod-grace-period: of pods evicted for a soft threshold
	NoStorageLimits  bool          // limits of ephemeral storage are not enforced (localStorageCapacityIsolation: false)

	Node       string
	Stats      Stats
	Pods       Pods
	Reclaim    Reclaimer
	Recorder   record.EventRecorder  // nil: no events
	Registerer prometheus.Registerer // nil: nothing is counted
	Logger     *slog.Logger

	Interval time.Duration // between rounds; 0: 10 s

	now func() time.Time // nil: time.Now
}

const (
	hardGrace = time.Second // pods evicted for a hard threshold are given so much
	// patience bounds how long the next round waits for an evicted pod to end.
	patience = 30 * time.Second
	// shared is how old figures may be that others have asked for. After an eviction none are: what it has given back would be missing from
	// them, and the next pod would go for nothing.
	shared = time.Second
	// countPatience bounds how long pods' disks are counted before one is chosen. What was counted before must do then.
	countPatience = 20 * time.Second
)

// Manager evicts pods.
type Manager struct {
	config  Config
	state   *state // of rounds, which run one after another
	metrics metrics

	mu         sync.Mutex
	conditions []corev1.NodeConditionType
}

// New makes a manager.
func New(config Config) *Manager {
	config.TransitionPeriod = cmp.Or(config.TransitionPeriod, 5*time.Minute)
	config.Interval = cmp.Or(config.Interval, 10*time.Second)
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Recorder == nil {
		config.Recorder = &record.FakeRecorder{} // which without a channel drops them
	}
	if config.now == nil {
		config.now = time.Now
	}
	return &Manager{config: config, state: newState(config.TransitionPeriod), metrics: newMetrics(config.Registerer)}
}

// Run looks every 10 s, and again at once after a pod has been evicted, until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	ticker := time.NewTicker(m.config.Interval)
	defer ticker.Stop()
	age := shared
	for {
		evicted, err := panics.Call(m.config.Logger, panics.Node, func() ([]*corev1.Pod, error) { return m.round(ctx, age) }, "node", m.config.Node)
		age = 0
		if err != nil && ctx.Err() == nil {
			m.config.Logger.Warn("the kubelet could not measure what the node is short of; it tries again", "node", m.config.Node, "error", err)
		}
		if len(evicted) > 0 && err == nil && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		age = shared
	}
}

// Under says whether a condition holds: MemoryPressure, DiskPressure or PIDPressure.
func (m *Manager) Under(condition corev1.NodeConditionType) bool {
	return slices.Contains(m.conditionsNow(), condition)
}

func (m *Manager) conditionsNow() []corev1.NodeConditionType {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conditions
}

// round looks once at figures of at most that age, and returns the pods that it has evicted.
func (m *Manager) round(ctx context.Context, age time.Duration) ([]*corev1.Pod, error) {
	var layout Layout
	var err error
	if layout.SeparateImages, layout.SeparateLayers, err = m.config.Stats.Layout(ctx); err != nil {
		return nil, err
	}
	summary, err := m.config.Stats.Summary(ctx, age, false)
	if err != nil {
		return nil, err
	}
	observed, stats := observations(summary), statsOf(summary)
	thresholds := withContainerFs(m.config.Thresholds, layout)
	conditions, act := m.state.step(thresholds, m.config.now(), observed)
	m.mu.Lock()
	m.conditions = conditions
	m.mu.Unlock()
	active := m.config.Pods.Active()
	if !m.config.NoStorageLimits {
		if evicted := m.enforceLimits(ctx, active, stats, layout); len(evicted) > 0 {
			return evicted, nil
		}
	}
	if len(act) == 0 {
		return nil, nil
	}
	urgent := act[0]
	name := signals[urgent.Signal].resource
	node := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: m.config.Node, UID: nodeUID(m.config.Node)}
	m.config.Recorder.Eventf(node, corev1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim %s", name)
	m.config.Logger.Info("the node runs short of a resource; the kubelet reclaims it, and evicts pods if that is not enough", "node", m.config.Node, "signal", urgent.Signal, "available", observed[urgent.Signal].available, "threshold", urgent.Value)
	if m.reclaim(ctx, urgent.Signal, layout, thresholds) {
		return nil, nil
	}
	if signals[urgent.Signal].condition == corev1.NodeDiskPressure {
		if stats, err = m.recount(ctx); err != nil {
			return nil, err
		}
	}
	rank(active, urgent.Signal, layout, stats)
	for _, t := range act {
		m.metrics.observed(t.Signal, m.config.now().Sub(observed[t.Signal].time))
	}
	for _, pod := range active {
		grace := hardGrace
		if urgent.Soft {
			grace = m.config.MaxPodGrace
			if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
				grace = min(grace, time.Duration(*own)*time.Second)
			}
		}
		message, annotations := explain(name, pod, stats, act, observed)
		condition := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: message}
		if m.evict(ctx, pod, grace, message, annotations, &condition) {
			m.metrics.evicted(string(urgent.Signal))
			return []*corev1.Pod{pod}, nil
		}
	}
	m.config.Logger.Warn("the node runs short of a resource, and no pod can be evicted; it stays so until something ends", "node", m.config.Node, "signal", urgent.Signal)
	return nil, nil
}

// recount has the statistics of pods whose disks have just been counted: a disk may fill faster than they are counted, and those who
// have filled it are to go, not those who were larger a minute ago.
func (m *Manager) recount(ctx context.Context) (podStats, error) {
	bounded, cancel := context.WithTimeout(ctx, countPatience)
	defer cancel()
	if err := m.config.Stats.CountDisks(bounded); err != nil && ctx.Err() == nil {
		m.config.Logger.Warn("the kubelet could not measure the disks of pods; it evicts by older figures", "node", m.config.Node, "error", err)
	}
	summary, err := m.config.Stats.Summary(ctx, 0, false)
	if err != nil {
		return nil, err
	}
	return statsOf(summary), nil
}

// enforceLimits evicts the pods that use more disk than they may.
func (m *Manager) enforceLimits(ctx context.Context, active []*corev1.Pod, stats podStats, layout Layout) (evicted []*corev1.Pod) {
	for _, pod := range active {
		s := stats(pod)
		if s == nil {
			continue
		}
		signal, message := overLimit(pod, s, layout)
		if signal != "" && m.evict(ctx, pod, hardGrace, message, nil, nil) {
			m.metrics.evicted(signal)
			evicted = append(evicted, pod)
		}
	}
	return evicted
}

// reclaim removes what nobody needs from the file system of a signal, and says whether that was enough.
func (m *Manager) reclaim(ctx context.Context, signal Signal, layout Layout, thresholds []Threshold) bool {
	work := m.reclaimers(signal, layout)
	if len(work) == 0 {
		return false
	}
	for _, reclaim := range work {
		if err := reclaim(ctx); err != nil && ctx.Err() == nil {
			m.config.Logger.Warn("the kubelet could not reclaim disk space from containers or images; it goes on to evict pods", "node", m.config.Node, "error", err)
		}
	}
	summary, err := m.config.Stats.Summary(ctx, 0, false)
	if err != nil {
		return false
	}
	return len(thresholdsMet(thresholds, observations(summary), true)) == 0
}

// reclaimers are what makes room on the file system of a signal.
func (m *Manager) reclaimers(signal Signal, layout Layout) (work []func(context.Context) error) {
	node := signal == NodeFsAvailable || signal == NodeFsInodesFree
	images := signal == ImageFsAvailable || signal == ImageFsInodesFree
	if signals[signal].condition != corev1.NodeDiskPressure {
		return nil
	}
	containers := true
	switch {
	case !layout.SeparateImages: // all on one
		images = true
	case !layout.SeparateLayers: // logs and volumes alone are on the node's
		containers, images = !node, !node
	default:
		containers = !images
	}
	if containers && m.config.Reclaim.Containers != nil {
		work = append(work, m.config.Reclaim.Containers)
	}
	if images && m.config.Reclaim.Images != nil {
		work = append(work, m.config.Reclaim.Images)
	}
	return work
}

// evict ends a pod, unless it is critical, and waits for its end. A pod that does not end in time counts as evicted, too.
func (m *Manager) evict(ctx context.Context, pod *corev1.Pod, grace time.Duration, message string, annotations map[string]string, condition *corev1.PodCondition) bool {
	if critical(pod) {
		m.config.Logger.Warn("the kubelet does not evict a critical pod; it looks for another one", "namespace", pod.Namespace, "pod", pod.Name)
		return false
	}
	m.config.Recorder.AnnotatedEventf(pod, annotations, corev1.EventTypeWarning, Reason, "%s", message)
	m.config.Logger.Info("the kubelet evicts a pod", "namespace", pod.Namespace, "pod", pod.Name, "reason", message)
	ctx, cancel := context.WithTimeout(ctx, grace+patience)
	defer cancel()
	if err := m.config.Pods.Evict(ctx, pod.UID, kubelet.Eviction{Reason: Reason, Message: message, Grace: &grace, Condition: condition}); err != nil {
		m.config.Logger.Warn("a pod that the kubelet evicted has not ended in time; others may be evicted beside it", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
	}
	return true
}
