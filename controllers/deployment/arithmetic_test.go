package deployment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func rolling(size int32, surge, unavailable string) *appsv1.Deployment {
	s, u := intstr.Parse(surge), intstr.Parse(unavailable)
	return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &size, Strategy: appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u},
	}}}
}

// aged makes a set that is the i-th oldest.
func aged(i int, size int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "set-" + strconv.Itoa(i), CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0)),
			Annotations: map[string]string{revisionAnnotation: strconv.Itoa(i)},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &size},
	}
}

func TestBounds(t *testing.T) {
	for _, test := range []struct {
		size                   int32
		surge, unavailable     string
		wantSurge, wantMissing int32
	}{
		{10, "25%", "25%", 3, 2}, // surge up, unavailable down
		{1, "25%", "25%", 1, 0},
		{3, "1", "0", 1, 0},
		{3, "0", "1", 0, 1},
		{3, "0", "0%", 0, 1}, // something must move
		{10, "0", "1%", 0, 1},
		{2, "5", "5", 5, 2}, // no more than there are
		{0, "2", "2", 2, 0},
		{0, "25%", "25%", 0, 0},
		{10, "nonsense", "1", 0, 1},
	} {
		surge, missing := bounds(rolling(test.size, test.surge, test.unavailable))
		if surge != test.wantSurge || missing != test.wantMissing {
			t.Errorf("%d pods, %s/%s: got %d/%d, want %d/%d", test.size, test.surge, test.unavailable, surge, missing, test.wantSurge, test.wantMissing)
		}
	}
	recreate := rolling(3, "1", "1")
	recreate.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	if surge, missing := bounds(recreate); surge != 0 || missing != 0 {
		t.Errorf("Recreate: got %d/%d", surge, missing)
	}
}

func TestNewSetSize(t *testing.T) {
	for _, test := range []struct {
		size, surge, old, fresh, want int32
	}{
		{10, 3, 0, 0, 10},
		{10, 3, 10, 0, 3},
		{10, 3, 10, 3, 3}, // no room
		{10, 3, 8, 3, 5},
		{10, 3, 2, 9, 10}, // room for more than is wanted
		{10, 3, 20, 1, 1}, // too many already: it does not shrink here
		{0, 3, 5, 0, 0},
	} {
		fresh := aged(2, test.fresh)
		d := rolling(test.size, strconv.Itoa(int(test.surge)), "0")
		if got := newSetSize(d, []*appsv1.ReplicaSet{aged(1, test.old), fresh}, fresh); got != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		if got := newSetSize(d, nil, fresh); got != test.size {
			t.Errorf("Recreate, %+v: got %d", test, got)
		}
	}
}

func TestProportion(t *testing.T) {
	for _, test := range []struct {
		size, target, annotated, toAdd, added, want int32
	}{
		{size: 5, target: 20, annotated: 10, toAdd: 10, want: 5},
		{size: 3, target: 15, annotated: 10, toAdd: 5, want: 2}, // 4.5 rounds away from zero
		{size: 5, target: 20, annotated: 10, toAdd: 10, added: 8, want: 2},
		{size: 5, target: 20, annotated: 10, toAdd: 10, added: 10, want: 0},
		{size: 5, target: 5, annotated: 10, toAdd: -5, want: -2}, // 2.5 becomes 3
		{size: 5, target: 1, annotated: 10, toAdd: -9, added: -8, want: -1},
		{size: 5, target: 0, annotated: 10, toAdd: -10, want: -5},
		{size: 5, target: 0, annotated: 0, toAdd: -5, want: -5},
		{size: 5, target: 7, annotated: 0, toAdd: 2, want: 0}, // nothing is known of before
		{size: 5, target: 10, annotated: 10, toAdd: 0, want: 0},
	} {
		if got := proportion(test.size, test.target, test.annotated, test.toAdd, test.added); got != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
	}
}

func names(sets []*appsv1.ReplicaSet) string {
	var names []string
	for _, set := range sets {
		names = append(names, strings.TrimPrefix(set.Name, "set-"))
	}
	return strings.Join(names, " ")
}

func TestBySize(t *testing.T) {
	sets := []*appsv1.ReplicaSet{aged(2, 3), aged(1, 3), aged(4, 1), aged(3, 7)}
	if got := names(bySize(sets, true)); got != "3 2 1 4" {
		t.Errorf("growing: %s", got)
	}
	if got := names(bySize(sets, false)); got != "3 1 2 4" {
		t.Errorf("shrinking: %s", got)
	}
	if got := names(byCreation(sets)); got != "1 2 3 4" {
		t.Errorf("by creation: %s", got)
	}
}

func TestSurplus(t *testing.T) {
	change := func(set *appsv1.ReplicaSet, f func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet { f(set); return set }
	sets := []*appsv1.ReplicaSet{
		change(aged(1, 0), func(s *appsv1.ReplicaSet) { s.Annotations[revisionAnnotation] = "9" }), // rolled back to since
		aged(2, 0),
		change(aged(3, 0), func(s *appsv1.ReplicaSet) { s.Status.Replicas = 1 }),
		aged(4, 2),
		change(aged(5, 0), func(s *appsv1.ReplicaSet) { s.Generation = 2; s.Status.ObservedGeneration = 1 }),
		change(aged(6, 0), func(s *appsv1.ReplicaSet) { s.DeletionTimestamp = &metav1.Time{} }),
		aged(7, 0),
	}
	for limit, want := range []string{"2 7 1", "2 7", "2", "2", "2", "2", "", ""} {
		if got := names(surplus(sets, limit)); got != want {
			t.Errorf("limit %d: got %q, want %q", limit, got, want)
		}
	}
}

func TestSaturated(t *testing.T) {
	d := rolling(3, "1", "1")
	set := aged(1, 3)
	set.Annotations[desiredAnnotation], set.Status.AvailableReplicas = "3", 3
	if !saturated(d, set) {
		t.Error("is all there is, but not saturated")
	}
	if saturated(d, nil) {
		t.Error("no set is saturated")
	}
	for what, spoil := range map[string]func(*appsv1.ReplicaSet){
		"a pod is missing":   func(s *appsv1.ReplicaSet) { s.Status.AvailableReplicas = 2 },
		"just scaled":        func(s *appsv1.ReplicaSet) { s.Annotations[desiredAnnotation] = "2" },
		"never scaled by us": func(s *appsv1.ReplicaSet) { delete(s.Annotations, desiredAnnotation) },
		"smaller":            func(s *appsv1.ReplicaSet) { s.Spec.Replicas = new(int32) },
	} {
		spoiled := set.DeepCopy()
		spoil(spoiled)
		if saturated(d, spoiled) {
			t.Errorf("%s, but saturated", what)
		}
	}
}

func TestAppendRevision(t *testing.T) {
	if got := appendRevision("", "3"); got != "3" {
		t.Errorf("first: %q", got)
	}
	if got := appendRevision("1,3", "5"); got != "1,3,5" {
		t.Errorf("third: %q", got)
	}
	var all []string
	history := ""
	for i := range 1000 {
		all = append(all, strconv.Itoa(i))
		history = appendRevision(history, strconv.Itoa(i))
	}
	if len(history) > maxHistoryLength || !strings.HasSuffix(strings.Join(all, ","), ","+history) || len(history) < maxHistoryLength-4 {
		t.Errorf("%d bytes, %s...", len(history), history[:20])
	}
}

func TestTemplateHash(t *testing.T) {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "one"}}}}
	hash := func(collisions *int32) string {
		h, err := templateHash(template, collisions)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	one, two := int32(1), int32(2)
	seen := []string{hash(nil), hash(&one), hash(&two)}
	if again := hash(&one); again != seen[1] {
		t.Errorf("a hash is not always the same: %s, then %s", seen[1], again)
	}
	template.Spec.Containers[0].Image = "two"
	seen = append(seen, hash(nil))
	slices.Sort(seen)
	if len(slices.Compact(seen)) != 4 {
		t.Errorf("hashes are alike: %v", seen)
	}
}

// TestRollingUpdate_StaysWithinBounds lets rollouts of all shapes run to their end on paper: the sets grow and shrink as grow and
// shrinkOld would, pods become available one at a time, and the bounds hold after every step.
func TestRollingUpdate_StaysWithinBounds(t *testing.T) {
	for _, surge := range []string{"0", "1", "25%", "100%"} {
		for _, unavailable := range []string{"0", "1", "50%", "100%"} {
			for _, size := range []int32{1, 2, 3, 10} {
				t.Run(fmt.Sprintf("%d pods, %s, %s", size, surge, unavailable), func(t *testing.T) {
					d := rolling(size, surge, unavailable)
					maxSurge, maxUnavailable := bounds(d)
					old, fresh := aged(1, size), aged(2, 0)
					old.Status.AvailableReplicas = size
					for step := 0; *old.Spec.Replicas > 0 || fresh.Status.AvailableReplicas < size; step++ {
						if step > 100 {
							t.Fatalf("no end: old %d, new %d", *old.Spec.Replicas, *fresh.Spec.Replicas)
						}
						*fresh.Spec.Replicas = newSetSize(d, []*appsv1.ReplicaSet{old, fresh}, fresh)
						if take := spare(d, []*appsv1.ReplicaSet{old, fresh}, fresh); take > 0 {
							*old.Spec.Replicas -= min(take, *old.Spec.Replicas)
							old.Status.AvailableReplicas = *old.Spec.Replicas
						}
						running := *old.Spec.Replicas + *fresh.Spec.Replicas
						available := old.Status.AvailableReplicas + fresh.Status.AvailableReplicas
						if running > size+maxSurge || available < size-maxUnavailable {
							t.Fatalf("step %d: %d running and %d available of %d (+%d -%d)", step, running, available, size, maxSurge, maxUnavailable)
						}
						if fresh.Status.AvailableReplicas < *fresh.Spec.Replicas {
							fresh.Status.AvailableReplicas++
						}
					}
				})
			}
		}
	}
}
