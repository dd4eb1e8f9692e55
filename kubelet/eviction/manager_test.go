package eviction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"vigil/kubelet"
)

const gi = 1 << 30

// machine is a node under a synthetic clock: pods, what they use, and what is left.
type machine struct {
	now     time.Time
	memory  uint64 // available of 8 GiB
	disk    uint64 // available of 100 GiB
	pids    int64  // running of 1000
	layout  Layout
	pods    []*corev1.Pod
	stats   map[types.UID]statsapi.PodStats
	evicted []string
	how     []kubelet.Eviction
	unknown error
	written map[string]uint64 // MiB that pods have on disk since the last count
}

func (m *machine) CountDisks(context.Context) error {
	for name, mib := range m.written {
		stats := m.stats[types.UID(name)]
		used := statsapi.FsStats{UsedBytes: new(mib << 20), InodesUsed: new(mib)}
		stats.EphemeralStorage, stats.Containers[0].Rootfs = &used, &used
		m.stats[types.UID(name)] = stats
	}
	return nil
}

func (m *machine) Summary(context.Context, time.Duration, bool) (*statsapi.Summary, error) {
	at := metav1.NewTime(m.now)
	s := &statsapi.Summary{Node: statsapi.NodeStats{
		Memory: &statsapi.MemoryStats{Time: at, AvailableBytes: new(m.memory), WorkingSetBytes: new(8*gi - m.memory)},
		Fs:     &statsapi.FsStats{Time: at, AvailableBytes: new(m.disk), CapacityBytes: new(uint64(100 * gi)), Inodes: new(uint64(1000)), InodesFree: new(uint64(900))},
		Rlimit: &statsapi.RlimitStats{Time: at, MaxPID: new(int64(1000)), NumOfRunningProcesses: new(m.pids)},
	}}
	s.Node.Runtime = &statsapi.RuntimeStats{ImageFs: s.Node.Fs, ContainerFs: s.Node.Fs}
	for _, stats := range m.stats {
		s.Pods = append(s.Pods, stats)
	}
	return s, m.unknown
}

func (m *machine) Layout(context.Context) (bool, bool, error) {
	return m.layout.SeparateImages, m.layout.SeparateLayers, nil
}

func (m *machine) Active() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(m.pods), func(p *corev1.Pod) bool { return slices.Contains(m.evicted, p.Name) })
}

func (m *machine) Evict(_ context.Context, pod types.UID, how kubelet.Eviction) error {
	m.evicted, m.how = append(m.evicted, string(pod)), append(m.how, how)
	m.memory += gi
	return nil
}

// add makes a pod of one container "c" that asks for and uses memory and disk, in MiB.
func (m *machine) add(name string, priority int32, asks, uses, disk uint64, change ...func(*corev1.Pod, *statsapi.PodStats)) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec:       corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{{Name: "c"}}},
	}
	if asks > 0 {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(int64(asks)<<20, resource.BinarySI)}
	}
	used := statsapi.FsStats{UsedBytes: new(disk << 20), InodesUsed: new(disk)}
	none := statsapi.FsStats{UsedBytes: new(uint64(0)), InodesUsed: new(uint64(0))}
	stats := statsapi.PodStats{
		PodRef: statsapi.PodReference{Name: name, UID: name}, Memory: &statsapi.MemoryStats{WorkingSetBytes: new(uses << 20)},
		ProcessStats:     &statsapi.ProcessStats{ProcessCount: new(uses)},
		EphemeralStorage: &used,
		Containers:       []statsapi.ContainerStats{{Name: "c", Memory: &statsapi.MemoryStats{WorkingSetBytes: new(uses << 20)}, Rootfs: &used, Logs: &none}},
	}
	for _, c := range change {
		c(pod, &stats)
	}
	m.pods = append(m.pods, pod)
	m.stats[pod.UID] = stats
}

func newMachine() *machine {
	return &machine{now: time.Unix(1000, 0), memory: 4 * gi, disk: 50 * gi, stats: map[types.UID]statsapi.PodStats{}}
}

// manage makes a manager of a machine, and a channel of its events.
func manage(t *testing.T, m *machine, flags Flags, change ...func(*Config)) (*Manager, *record.FakeRecorder) {
	t.Helper()
	thresholds, err := Parse(flags)
	if err != nil {
		t.Fatal(err)
	}
	recorder := record.NewFakeRecorder(100)
	config := Config{Thresholds: thresholds, Node: "node-1", Stats: m, Pods: m, Recorder: recorder, now: func() time.Time { return m.now }}
	for _, c := range change {
		c(&config)
	}
	return New(config), recorder
}

// TestManager_CountsBeforeItChooses has a pod fill the disk between two counts.
func TestManager_CountsBeforeItChooses(t *testing.T) {
	m := newMachine()
	m.add("old", 0, 0, 1, 20)
	m.add("filler", 0, 0, 1, 1)
	manager, _ := manage(t, m, Flags{Hard: map[string]string{"nodefs.available": "10%"}})
	round(t, m, manager)
	m.disk, m.written = gi, map[string]uint64{"filler": 50 << 10}
	round(t, m, manager)
	if fmt.Sprint(m.evicted) != "[filler]" || !strings.Contains(m.how[0].Message, "Container c was using 50Gi, request is 0") {
		t.Errorf("evicted %v: %+v", m.evicted, m.how)
	}
}

// round moves time on by 10 s and lets the manager look.
func round(t *testing.T, m *machine, manager *Manager) {
	t.Helper()
	m.now = m.now.Add(10 * time.Second)
	if _, err := manager.round(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
}

func TestManager_EvictsForMemory(t *testing.T) {
	m := newMachine()
	m.add("modest", 0, 500, 400, 1)
	m.add("greedy", 0, 100, 600, 1)
	m.add("greedy-important", 1000, 100, 900, 1)
	m.add("critical", systemCritical, 0, 2000, 1)
	registry := prometheus.NewRegistry()
	manager, events := manage(t, m, Flags{Hard: map[string]string{"memory.available": "2Gi"}}, func(c *Config) { c.Registerer = registry })
	round(t, m, manager)
	if manager.Under(corev1.NodeMemoryPressure) || len(m.evicted) != 0 {
		t.Fatalf("at rest: %v", m.evicted)
	}
	m.memory = gi + 1
	round(t, m, manager)
	if !manager.Under(corev1.NodeMemoryPressure) || manager.Under(corev1.NodeDiskPressure) || fmt.Sprint(m.evicted) != "[greedy]" {
		t.Fatalf("evicted %v", m.evicted)
	}
	how := m.how[0]
	want := "The node was low on resource: memory. Threshold quantity: 2Gi, available: 1048577Ki. Container c was using 600Mi, request is 100Mi, has larger consumption of memory. "
	want = strings.Replace(want, "1048577Ki", fmt.Sprint(resource.NewQuantity(gi+1, resource.BinarySI)), 1)
	if how.Reason != "Evicted" || how.Message != want || *how.Grace != time.Second || how.Condition.Type != corev1.DisruptionTarget || how.Condition.Reason != "TerminationByKubelet" || how.Condition.Message != want {
		t.Errorf("eviction: %+v, message %q", how, how.Message)
	}
	if event := <-events.Events; event != "Warning EvictionThresholdMet Attempting to reclaim memory" {
		t.Errorf("event %q", event)
	}
	if event := <-events.Events; !strings.HasPrefix(event, "Warning Evicted "+want) {
		t.Errorf("event %q", event)
	}
	round(t, m, manager) // 2 GiB and a byte are left
	if len(m.evicted) != 1 || !manager.Under(corev1.NodeMemoryPressure) {
		t.Errorf("then: %v", m.evicted)
	}
	m.memory = 0
	round(t, m, manager)
	m.memory = 0
	round(t, m, manager)
	m.memory = 0
	round(t, m, manager)
	if diff := cmp.Diff([]string{"greedy", "greedy-important", "modest"}, m.evicted); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`# HELP kubelet_evictions Cumulative number of pod evictions by eviction signal
# TYPE kubelet_evictions counter
kubelet_evictions{eviction_signal="memory.available"} 3
`), "kubelet_evictions"); err != nil {
		t.Error(err)
	}
	m.memory, m.now = 4*gi, m.now.Add(4*time.Minute)
	round(t, m, manager)
	if !manager.Under(corev1.NodeMemoryPressure) {
		t.Error("the condition went too soon")
	}
	m.now = m.now.Add(time.Minute)
	round(t, m, manager)
	if manager.Under(corev1.NodeMemoryPressure) {
		t.Error("the condition stays")
	}
}

func TestManager_SoftThresholdWaits(t *testing.T) {
	m := newMachine()
	m.add("pod", 0, 0, 100, 1, func(p *corev1.Pod, _ *statsapi.PodStats) { p.Spec.TerminationGracePeriodSeconds = new(int64(30)) })
	manager, _ := manage(t, m, Flags{
		Hard: map[string]string{}, Soft: map[string]string{"memory.available": "5Gi"}, SoftGracePeriod: map[string]string{"memory.available": "25s"},
	}, func(c *Config) { c.MaxPodGrace = time.Minute })
	for range 3 {
		round(t, m, manager)
		if len(m.evicted) != 0 || !manager.Under(corev1.NodeMemoryPressure) {
			t.Fatalf("at %v: %v", m.now, m.evicted)
		}
	}
	round(t, m, manager)
	if len(m.evicted) != 1 || *m.how[0].Grace != 30*time.Second {
		t.Errorf("got %v, %+v", m.evicted, m.how)
	}
}

func TestManager_ReclaimsDiskFirst(t *testing.T) {
	m := newMachine()
	m.add("pod", 0, 0, 1, 5)
	var calls []string
	enough := true
	manager, _ := manage(t, m, Flags{}, func(c *Config) {
		c.Reclaim = Reclaimer{
			Containers: func(context.Context) error { calls = append(calls, "containers"); return errors.New("busy") },
			Images: func(context.Context) error {
				calls = append(calls, "images")
				if enough {
					m.disk = 20 * gi
				}
				return nil
			},
		}
	})
	m.disk = 5 * gi
	round(t, m, manager)
	if diff := cmp.Diff([]string{"containers", "images"}, calls); diff != "" || len(m.evicted) != 0 || !manager.Under(corev1.NodeDiskPressure) {
		t.Errorf("evicted %v (-want +got):\n%s", m.evicted, diff)
	}
	enough, m.disk = false, 5*gi
	round(t, m, manager)
	if fmt.Sprint(m.evicted) != "[pod]" || !strings.HasPrefix(m.how[0].Message, "The node was low on resource: ephemeral-storage. Threshold quantity: ") {
		t.Errorf("evicted %v, %+v", m.evicted, m.how)
	}
}

func TestManager_PIDs(t *testing.T) {
	m := newMachine()
	m.add("few", 0, 0, 10, 1)
	m.add("many", 0, 0, 300, 1)
	m.add("most-but-important", 5, 0, 400, 1)
	manager, _ := manage(t, m, Flags{Hard: map[string]string{"pid.available": "10%"}})
	m.pids = 950
	round(t, m, manager)
	if fmt.Sprint(m.evicted) != "[many]" || !manager.Under(corev1.NodePIDPressure) || !strings.HasPrefix(m.how[0].Message, "The node was low on resource: pids. Threshold quantity: 100, available: 50. ") {
		t.Errorf("evicted %v, %+v", m.evicted, m.how)
	}
}

func TestManager_NoFigures(t *testing.T) {
	m := newMachine()
	m.unknown = errors.New("the runtime is down")
	manager, _ := manage(t, m, Flags{})
	if _, err := manager.round(t.Context(), shared); !errors.Is(err, m.unknown) {
		t.Errorf("got %v", err)
	}
}

func TestManager_DiskLimits(t *testing.T) {
	limited := func(name string, limit string) func(*corev1.Pod, *statsapi.PodStats) {
		return func(p *corev1.Pod, _ *statsapi.PodStats) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(limit)}
		}
	}
	emptyDir := func(size string, used uint64) func(*corev1.Pod, *statsapi.PodStats) {
		return func(p *corev1.Pod, s *statsapi.PodStats) {
			limit := resource.MustParse(size)
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
			s.VolumeStats = []statsapi.VolumeStats{{Name: "v", FsStats: statsapi.FsStats{UsedBytes: &used}}}
		}
	}
	m := newMachine()
	m.add("within", 0, 0, 1, 5, limited("ephemeral-storage", "10Mi"), emptyDir("1Mi", 1<<20))
	m.add("volume", 0, 0, 1, 1, emptyDir("1Mi", 1<<20+1))
	m.add("pod", 0, 0, 1, 20, limited("ephemeral-storage", "10Mi"))
	m.add("container", 0, 0, 1, 20, limited("ephemeral-storage", "10Mi"), func(p *corev1.Pod, s *statsapi.PodStats) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"ephemeral-storage": resource.MustParse("1Gi")}}})
	})
	m.add("critical", systemCritical, 0, 1, 20, limited("ephemeral-storage", "10Mi"))
	manager, _ := manage(t, m, Flags{})
	round(t, m, manager)
	got := map[string]string{}
	for i, name := range m.evicted {
		got[name] = m.how[i].Message
	}
	want := map[string]string{
		"volume":    `Usage of EmptyDir volume "v" exceeds the limit "1Mi". `,
		"pod":       `Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. `,
		"container": `Container c exceeded its local ephemeral storage limit "10Mi". `,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.evicted = nil
	manager, _ = manage(t, m, Flags{}, func(c *Config) { c.NoStorageLimits = true })
	if round(t, m, manager); len(m.evicted) != 0 {
		t.Errorf("evicted %v although limits are not to be enforced", m.evicted)
	}
}

func TestRank(t *testing.T) {
	m := newMachine()
	volume := func(used uint64) func(*corev1.Pod, *statsapi.PodStats) {
		return func(p *corev1.Pod, s *statsapi.PodStats) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			s.VolumeStats = []statsapi.VolumeStats{{Name: "v", FsStats: statsapi.FsStats{UsedBytes: &used, InodesUsed: &used}}}
		}
	}
	m.add("layer", 0, 100, 200, 500)
	m.add("volume", 0, 100, 300, 1, volume(400<<20))
	m.add("within", 0, 900, 800, 1)
	m.add("important", 7, 0, 900, 900)
	m.add("unknown", 9, 0, 0, 0)
	delete(m.stats, "unknown")
	summary, _ := m.Summary(t.Context(), 0, false)
	for _, test := range []struct {
		signal Signal
		layout Layout
		want   []string
	}{
		{MemoryAvailable, Layout{}, []string{"unknown", "volume", "layer", "important", "within"}},
		{AllocatableMemoryAvailable, Layout{}, []string{"unknown", "volume", "layer", "important", "within"}},
		{NodeFsAvailable, Layout{}, []string{"unknown", "layer", "volume", "within", "important"}},
		{NodeFsAvailable, Layout{SeparateImages: true}, []string{"unknown", "volume", "layer", "within", "important"}},
		{ImageFsAvailable, Layout{SeparateImages: true}, []string{"unknown", "layer", "volume", "within", "important"}},
		{NodeFsInodesFree, Layout{}, []string{"unknown", "volume", "layer", "within", "important"}},
		{PIDAvailable, Layout{}, []string{"within", "volume", "layer", "important", "unknown"}},
	} {
		pods := slices.Clone(m.pods)
		rank(pods, test.signal, test.layout, statsOf(summary))
		var got []string
		for _, p := range pods {
			got = append(got, p.Name)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s, %+v (-want +got):\n%s", test.signal, test.layout, diff)
		}
	}
}

func TestAdmit(t *testing.T) {
	bestEffort := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	burstable := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}}}
	tolerates := bestEffort.DeepCopy()
	tolerates.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists}}
	important := bestEffort.DeepCopy()
	important.Spec.Priority = new(int32(systemCritical))
	static := bestEffort.DeepCopy()
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	memory, disk := []corev1.NodeConditionType{corev1.NodeMemoryPressure}, []corev1.NodeConditionType{corev1.NodeDiskPressure}
	both := []corev1.NodeConditionType{corev1.NodeDiskPressure, corev1.NodeMemoryPressure}
	for _, test := range []struct {
		pod        *corev1.Pod
		conditions []corev1.NodeConditionType
		refusal    string
	}{
		{bestEffort, nil, ""},
		{bestEffort, memory, "The node had condition: [MemoryPressure]. "},
		{burstable, memory, ""},
		{tolerates, memory, ""},
		{tolerates, disk, "The node had condition: [DiskPressure]. "},
		{burstable, both, "The node had condition: [DiskPressure MemoryPressure]. "},
		{important, both, ""},
		{static, both, ""},
	} {
		manager := New(Config{})
		manager.conditions = test.conditions
		got := ""
		if refusal := manager.Admit(test.pod, nil); refusal != nil {
			got = refusal.Message
			if refusal.Reason != "Evicted" {
				t.Errorf("reason %s", refusal.Reason)
			}
		}
		if got != test.refusal {
			t.Errorf("under %v: %q, want %q", test.conditions, got, test.refusal)
		}
	}
}
