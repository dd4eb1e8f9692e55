package replicaset

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testSet(size int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": "web"}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 4},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &size, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		},
	}
}

func TestNewStatus(t *testing.T) {
	labeled := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web", "more": "x"} }
	noTime := func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }
	for _, test := range []struct {
		name                                string
		minReady                            int32
		pods                                []*corev1.Pod
		replicas, labeled, ready, available int32
		wait                                time.Duration
	}{
		{name: "nothing"},
		{name: "ready is available", pods: []*corev1.Pod{testPod("a", labeled), testPod("b"), testPod("c", labeled, unready)}, replicas: 3, labeled: 2, ready: 2, available: 2},
		{name: "ready without a time", pods: []*corev1.Pod{testPod("a", noTime)}, replicas: 1, ready: 1, available: 1},
		{name: "long enough", minReady: 60, pods: []*corev1.Pod{testPod("a", readyFor(time.Minute))}, replicas: 1, ready: 1, available: 1},
		{
			name: "soon", minReady: 60, replicas: 3, ready: 3, wait: 5 * time.Second,
			pods: []*corev1.Pod{testPod("a", readyFor(50*time.Second)), testPod("b", readyFor(55*time.Second)), testPod("c", noTime)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := testSet(3)
			set.Spec.MinReadySeconds = test.minReady
			set.Status.ReadyReplicas, set.Status.AvailableReplicas = 9, 9 // of earlier, must not stay
			status, wait := newStatus(set, test.pods, 2, epoch)
			if status.Replicas != test.replicas || status.FullyLabeledReplicas != test.labeled || status.ReadyReplicas != test.ready ||
				status.AvailableReplicas != test.available || *status.TerminatingReplicas != 2 || status.ObservedGeneration != 4 {
				t.Errorf("got %+v", status)
			}
			if wait != test.wait {
				t.Errorf("looks again after %v, want %v", wait, test.wait)
			}
		})
	}
}

func TestSetFailure(t *testing.T) {
	set, status := testSet(3), appsv1.ReplicaSetStatus{}
	expect := func(when, reason, message string) {
		t.Helper()
		if reason == "" {
			if len(status.Conditions) != 0 {
				t.Errorf("%s: got %+v, want none", when, status.Conditions)
			}
			return
		}
		if len(status.Conditions) != 1 {
			t.Fatalf("%s: got %+v, want one", when, status.Conditions)
		}
		c := status.Conditions[0]
		if c.Type != appsv1.ReplicaSetReplicaFailure || c.Status != corev1.ConditionTrue || c.Reason != reason || c.Message != message {
			t.Errorf("%s: got %+v", when, c)
		}
	}
	setFailure(&status, set, 1, nil)
	expect("no failure", "", "")
	setFailure(&status, set, 1, errors.New("quota"))
	expect("creating fails", "FailedCreate", "quota")
	setFailure(&status, set, 1, errors.New("quota exceeded by pod x"))
	expect("creating fails again", "FailedCreate", "quota") // or the status would change with every attempt
	setFailure(&status, set, 4, errors.New("webhook"))
	expect("deleting fails", "FailedDelete", "webhook")
	setFailure(&status, set, 3, nil)
	expect("mended", "", "")
}
