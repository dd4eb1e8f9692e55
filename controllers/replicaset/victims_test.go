package replicaset

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/controllers/internal/podfacts"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// testPod is a running pod on node n that has been ready for an hour and is two hours old, changed.
func testPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), CreationTimestamp: metav1.NewTime(epoch.Add(-2 * time.Hour)),
			Labels:          map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "set", Controller: new(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{}}},
	}
	readyFor(time.Hour)(pod)
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func readyFor(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch.Add(-d))}}
	}
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func TestVictims(t *testing.T) {
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	cost := func(cost string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: cost} }
	}
	node := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }
	restarted := func(n int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = n }
	}
	old := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(epoch.Add(-d)) }
	}
	for _, test := range []struct {
		name string
		pods []*corev1.Pod // in the order in which they should go
	}{
		{"unassigned before assigned", []*corev1.Pod{testPod("z", node("")), testPod("a", phase(corev1.PodPending))}},
		{"pending, unknown, running", []*corev1.Pod{testPod("z", phase(corev1.PodPending)), testPod("y", phase(corev1.PodUnknown)), testPod("a", unready)}},
		{"not ready before ready", []*corev1.Pod{testPod("z", unready, cost("9")), testPod("a")}},
		{"cheap before dear", []*corev1.Pod{testPod("z", cost("-1")), testPod("a"), testPod("b", cost("2"))}},
		{"unreadable cost is none", []*corev1.Pod{testPod("z", cost("-1")), testPod("a", cost("much"))}},
		{"crowded node first", []*corev1.Pod{testPod("z", node("crowded")), testPod("a")}},
		{"ready for a shorter time", []*corev1.Pod{testPod("z", readyFor(time.Minute)), testPod("a")}},
		{"small differences do not count", []*corev1.Pod{testPod("a", readyFor(3601*time.Second)), testPod("z", readyFor(3600*time.Second))}},
		{"ready without a time is youngest", []*corev1.Pod{testPod("z", func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }), testPod("a", readyFor(time.Second))}},
		{"often restarted", []*corev1.Pod{testPod("z", restarted(3)), testPod("a", restarted(1))}},
		{"young before old", []*corev1.Pod{testPod("z", old(time.Hour)), testPod("a", old(24*time.Hour))}},
	} {
		t.Run(test.name, func(t *testing.T) {
			names := func(pods []podfacts.Facts) string {
				var b strings.Builder
				for _, p := range pods {
					b.WriteString(p.Name)
				}
				return b.String()
			}
			var wanted, reversed []podfacts.Facts
			for _, pod := range test.pods {
				wanted = append(wanted, podfacts.OfPod(pod))
				reversed = slices.Insert(reversed, 0, podfacts.OfPod(pod))
			}
			related := map[string]int{"n": 2, "crowded": 3}
			if got, want := names(victims(reversed, related, 9, epoch)), names(wanted); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := victims(reversed, related, 1, epoch); len(got) != 1 || got[0] != wanted[0] {
				t.Errorf("one victim: got %s", names(got))
			}
		})
	}
}
