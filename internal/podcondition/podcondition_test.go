package podcondition

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func is(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.Unix(1e9, 0)}
}

func TestPatch(t *testing.T) {
	known := []corev1.PodCondition{is("A", "True", "a"), is("B", "True", "b"), is("C", "True", "")}
	others := append([]corev1.PodCondition{is("New", "True", "")}, known...)
	for _, c := range []struct {
		name              string
		have, there, want []corev1.PodCondition
		set               corev1.PodCondition
	}{
		{"new ones go to the end", known, known, append(known[:3:3], is("D", "True", "d")), is("D", "True", "d")},
		{"others keep their place", known, known, []corev1.PodCondition{known[0], is("B", "False", "why"), known[2]}, is("B", "False", "why")},
		{"a reason stays that is not given", known, known, []corev1.PodCondition{known[0], is("B", "False", "b"), known[2]}, is("B", "False", "")},
		{"an unchanged status keeps its time", known, known, []corev1.PodCondition{known[0], is("B", "True", "why"), known[2]},
			corev1.PodCondition{Type: "B", Status: "True", Reason: "why", LastTransitionTime: metav1.Unix(2e9, 0)}},
		{"none", known, known, known, corev1.PodCondition{}},
		{"the first one", nil, nil, []corev1.PodCondition{is("D", "True", "d")}, is("D", "True", "d")},
		{"what others added stays", known, others, append(others[:4:4], is("D", "True", "d")), is("D", "True", "d")},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := (&Patch{UID: "u", Have: c.have, Set: c.set, Phase: corev1.PodFailed}).Encode()
			if err != nil {
				t.Fatal(err)
			}
			before, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: corev1.PodStatus{Conditions: c.there}})
			if err != nil {
				t.Fatal(err)
			}
			patched, err := strategicpatch.StrategicMergePatch(before, body, corev1.Pod{})
			if err != nil {
				t.Fatal(err)
			}
			var got corev1.Pod
			if err := json.Unmarshal(patched, &got); err != nil {
				t.Fatal(err)
			}
			utc := cmp.Transformer("UTC", func(t metav1.Time) time.Time { return t.UTC() })
			if diff := cmp.Diff(c.want, got.Status.Conditions, utc); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got.Status.Phase != corev1.PodFailed || got.UID != "u" {
				t.Errorf("got %+v", got)
			}
		})
	}
}
