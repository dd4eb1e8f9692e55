package replicaset

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testSet(size int32) *appsv1.ReplicaSet {
	labels := func() map[string]string { return map[string]string{"app": "web"} }
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "set", Generation: 4},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &size, Selector: &metav1.LabelSelector{MatchLabels: labels()},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels()}},
		},
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
