package podfacts

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer"
)

var podType = informer.ResourceOf[*corev1.Pod]().Type

// What is read from the bytes is what a decoded pod says.
func TestOf(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		pod := randomPod(r)
		message, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		// As an API server sends it: the resource version in a second metadata field behind the stored message.
		message = append(message, 0x0a, 3, 0x32, 1, '7')
		o, err := informer.FromProto(podType, message)
		if err != nil {
			t.Fatal(err)
		}
		var decoded corev1.Pod
		if err := decoded.Unmarshal(message); err != nil {
			t.Fatal(err)
		}
		want := OfPod(&decoded)
		got, err := Of(o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			text, _ := json.Marshal(pod)
			t.Fatalf("%s\n(-decoded +read):\n%s", text, diff)
		}
		if state, err := StateOf(o); err != nil || state != want.State {
			t.Fatalf("state %+v, %v; want %+v", state, err, want.State)
		}
	}
}

// Bytes that no reader understands fail as they do for a decoder.
func TestOf_Malformed(t *testing.T) {
	o, err := informer.FromProto(podType, []byte{0x0a, 3, 0x0a, 1, 'a', 0x1a, 2, 0x12, 9})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := StateOf(o); err == nil {
		t.Error("there is a state")
	}
	if _, err := Of(o); err == nil {
		t.Error("there are facts")
	}
}

func randomPod(r *rand.Rand) *corev1.Pod {
	when := func() metav1.Time {
		if r.IntN(4) == 0 {
			return metav1.Time{}
		}
		return metav1.Unix(r.Int64N(2_000_000_000), 0)
	}
	some := func(n int) bool { return r.IntN(n) == 0 }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", UID: types.UID("c"), CreationTimestamp: when()}}
	pod.Labels = map[string]string{"app": "x"}
	if some(3) {
		at := when()
		pod.DeletionTimestamp = &at
	}
	if some(2) {
		pod.Annotations = map[string]string{"other": "1", corev1.PodDeletionCost: []string{"7", "-3", "much", ""}[r.IntN(4)]}
	}
	if some(2) {
		pod.Spec.NodeName = "node"
	}
	pod.Status.Phase = []corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown, "odd"}[r.IntN(7)]
	for range r.IntN(4) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled}[r.IntN(2)], LastTransitionTime: when(),
			Status: []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[r.IntN(2)], Reason: "r",
		})
	}
	for range r.IntN(3) {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: "c", RestartCount: int32(r.IntN(5))})
	}
	return pod
}

func BenchmarkStateOf(b *testing.B) {
	pod := randomPod(rand.New(rand.NewPCG(1, 2)))
	message, err := pod.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	o, err := informer.FromProto(podType, message)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := StateOf(o); err != nil {
			b.Fatal(err)
		}
	}
}
