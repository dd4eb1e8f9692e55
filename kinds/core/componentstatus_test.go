package core

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

func TestComponentStatus_Row(t *testing.T) {
	for status, want := range map[corev1.ConditionStatus]string{corev1.ConditionTrue: "Healthy", corev1.ConditionFalse: "Unhealthy", "": "Unknown"} {
		obj := &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: "scheduler"}}
		message, failure := "", ""
		if status != "" {
			message, failure = "m", "e"
			obj.Conditions = []corev1.ComponentCondition{{Type: "Other"}, {Type: corev1.ComponentHealthy, Status: status, Message: message, Error: failure}}
		}
		kindtest.Row(t, ComponentStatus(), obj, time.Now(), "scheduler", want, message, failure)
	}
}
