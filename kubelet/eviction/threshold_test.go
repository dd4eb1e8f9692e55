package eviction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestParse(t *testing.T) {
	text := func(thresholds []Threshold) (lines []string) {
		for _, t := range thresholds {
			line := string(t.Signal) + "<" + t.Value.String()
			if t.Soft {
				line += " for " + t.Grace.String()
			}
			if t.MinReclaim != nil {
				line += " reclaim " + t.MinReclaim.String()
			}
			lines = append(lines, line)
		}
		return lines
	}
	for _, test := range []struct {
		name  string
		flags Flags
		want  []string
		err   string
	}{
		{name: "defaults", want: []string{"imagefs.available<15%", "imagefs.inodesFree<5%", "memory.available<100Mi", "nodefs.available<10%", "nodefs.inodesFree<5%", "allocatableMemory.available<100Mi"}},
		{name: "everything", flags: Flags{
			Hard: map[string]string{"memory.available": "150Mi", "nodefs.available": "0%", "pid.available": "100%"}, Soft: map[string]string{"memory.available": "30%"},
			SoftGracePeriod: map[string]string{"memory.available": "90s"}, MinimumReclaim: map[string]string{"memory.available": "0"},
		}, want: []string{"memory.available<150Mi reclaim 0", "memory.available<30% for 1m30s reclaim 0", "allocatableMemory.available<150Mi reclaim 0"}},
		{name: "none", flags: Flags{Hard: map[string]string{}}},
		{name: "pods are not limited", flags: Flags{Hard: map[string]string{"memory.available": "1Gi"}, NoPodsEnforced: true}, want: []string{"memory.available<1Gi"}},
		{name: "unknown", flags: Flags{Hard: map[string]string{"mem.available": "1Gi"}}, err: "unsupported eviction signal mem.available"},
		{name: "negative", flags: Flags{Hard: map[string]string{"memory.available": "-150Mi"}}, err: "eviction threshold memory.available must be positive: -150Mi"},
		{name: "negative part", flags: Flags{Hard: map[string]string{"memory.available": "-15%"}}, err: "eviction percentage threshold memory.available must be >= 0%: -15%"},
		{name: "more than all", flags: Flags{Hard: map[string]string{"memory.available": "150%"}}, err: "eviction percentage threshold memory.available must be <= 100%: 150%"},
		{name: "no grace", flags: Flags{Soft: map[string]string{"memory.available": "150Mi"}}, err: "grace period must be specified for the soft eviction threshold memory.available"},
		{name: "negative grace", flags: Flags{SoftGracePeriod: map[string]string{"memory.available": "-30s"}}, err: "invalid eviction grace period specified: -30s, must be a positive value"},
		{name: "negative reclaim", flags: Flags{MinimumReclaim: map[string]string{"memory.available": "-1Gi"}}, err: "negative eviction minimum reclaim specified for memory.available"},
		{name: "negative reclaimed part", flags: Flags{MinimumReclaim: map[string]string{"memory.available": "-1%"}}, err: "eviction percentage minimum reclaim memory.available must be positive: -1%"},
		{name: "no number", flags: Flags{Hard: map[string]string{"memory.available": "few"}}, err: "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Parse(test.flags)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("got %v, %v", text(got), err)
				}
				return
			}
			if diff := cmp.Diff(test.want, text(got)); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestReservation(t *testing.T) {
	thresholds, err := Parse(Flags{Soft: map[string]string{"memory.available": "50%"}, SoftGracePeriod: map[string]string{"memory.available": "1m"}})
	if err != nil {
		t.Fatal(err)
	}
	got := Reservation(thresholds, corev1.ResourceList{"memory": resource.MustParse("1Gi"), "ephemeral-storage": resource.MustParse("100Gi")})
	if got.Memory().String() != "100Mi" || got.StorageEphemeral().String() != "10Gi" || len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

func TestWithContainerFs(t *testing.T) {
	thresholds, err := Parse(Flags{Hard: map[string]string{"nodefs.available": "10%", "imagefs.available": "15%", "containerfs.available": "1%"}, NoPodsEnforced: true})
	if err != nil {
		t.Fatal(err)
	}
	for layout, want := range map[Layout]string{{}: "10%", {SeparateImages: true}: "15%", {SeparateImages: true, SeparateLayers: true}: "10%"} {
		var got []string
		for _, t := range withContainerFs(thresholds, layout) {
			if t.Signal == ContainerFsAvailable {
				got = append(got, t.Value.String())
			}
		}
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", layout, diff)
		}
	}
}

// of makes an observation.
func of(available, capacity string, at time.Time) observation {
	a, c := resource.MustParse(available), resource.MustParse(capacity)
	return observation{&a, &c, at}
}

func TestStep(t *testing.T) {
	start := time.Unix(1000, 0)
	hard, err := Parse(Flags{
		Hard: map[string]string{"memory.available": "1Gi", "nodefs.available": "10%"}, Soft: map[string]string{"memory.available": "2Gi"},
		SoftGracePeriod: map[string]string{"memory.available": "1m"}, MinimumReclaim: map[string]string{"memory.available": "500Mi"}, NoPodsEnforced: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newState(5 * time.Minute)
	for _, step := range []struct {
		at           int // s
		memory, disk string
		conditions   []corev1.NodeConditionType
		act          []string
	}{
		{at: 0, memory: "3Gi", disk: "50Gi"},
		{at: 10, memory: "1536Mi", disk: "50Gi", conditions: []corev1.NodeConditionType{"MemoryPressure"}}, // soft, in its grace
		{at: 60, memory: "1536Mi", disk: "50Gi", conditions: []corev1.NodeConditionType{"MemoryPressure"}},
		{at: 70, memory: "1536Mi", disk: "50Gi", conditions: []corev1.NodeConditionType{"MemoryPressure"}, act: []string{"memory.available<2Gi"}},
		{at: 80, memory: "512Mi", disk: "5Gi", conditions: []corev1.NodeConditionType{"DiskPressure", "MemoryPressure"}, act: []string{"memory.available<1Gi", "memory.available<2Gi", "nodefs.available<10%"}},
		{at: 90, memory: "1200Mi", disk: "50Gi", conditions: []corev1.NodeConditionType{"DiskPressure", "MemoryPressure"}, act: []string{"memory.available<2Gi", "memory.available<1Gi"}}, // not enough reclaimed
		{at: 100, memory: "2200Mi", disk: "50Gi", conditions: []corev1.NodeConditionType{"DiskPressure", "MemoryPressure"}, act: []string{"memory.available<2Gi"}},
		{at: 110, memory: "3Gi", disk: "50Gi", conditions: []corev1.NodeConditionType{"DiskPressure", "MemoryPressure"}},
		{at: 379, memory: "3Gi", disk: "50Gi", conditions: []corev1.NodeConditionType{"DiskPressure", "MemoryPressure"}},
		{at: 380, memory: "3Gi", disk: "50Gi", conditions: []corev1.NodeConditionType{"MemoryPressure"}},
		{at: 400, memory: "3Gi", disk: "50Gi"},
	} {
		now := start.Add(time.Duration(step.at) * time.Second)
		conditions, act := s.step(hard, now, map[Signal]observation{MemoryAvailable: of(step.memory, "8Gi", now), NodeFsAvailable: of(step.disk, "100Gi", now)})
		var acted []string
		for _, t := range act {
			acted = append(acted, string(t.Signal)+"<"+t.Value.String())
		}
		if diff := cmp.Diff(step.conditions, conditions); diff != "" {
			t.Errorf("at %d: conditions (-want +got):\n%s", step.at, diff)
		}
		if diff := cmp.Diff(step.act, acted); diff != "" {
			t.Errorf("at %d: thresholds (-want +got):\n%s", step.at, diff)
		}
	}
}

func TestStep_WaitsForNewFigures(t *testing.T) {
	thresholds, err := Parse(Flags{Hard: map[string]string{"memory.available": "1Gi"}, NoPodsEnforced: true})
	if err != nil {
		t.Fatal(err)
	}
	s, now := newState(time.Minute), time.Unix(1000, 0)
	observed := map[Signal]observation{MemoryAvailable: of("1Mi", "8Gi", now)}
	if _, act := s.step(thresholds, now, observed); len(act) != 1 {
		t.Errorf("first: %v", act)
	}
	if conditions, act := s.step(thresholds, now.Add(time.Second), observed); len(act) != 0 || len(conditions) != 1 {
		t.Errorf("the same figures: %v, %v", conditions, act)
	}
	if _, act := s.step(thresholds, now.Add(time.Second), nil); len(act) != 0 {
		t.Errorf("without figures: %v", act)
	}
}
