package scheduler

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/informer"
	"vigil/scheduler/nodecache"
)

// Two states of a pod that look the same at a glance ask for the same, on the same node; and what changes nothing that counts looks the same.
func TestGlance(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	amount := func() corev1.ResourceList {
		return corev1.ResourceList{"cpu": *resource.NewMilliQuantity(100*(1+r.Int64N(2)), resource.DecimalSI)}
	}
	idle := []func(*corev1.Pod){ // what does not count
		func(p *corev1.Pod) { p.ResourceVersion += "1" },
		func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} },
		func(p *corev1.Pod) { p.Status.PodIP, p.Status.Phase = "10.0.0.1", corev1.PodRunning },
		func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = !p.Status.ContainerStatuses[0].Ready },
		func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		},
	}
	busy := []func(*corev1.Pod){ // what may
		func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = amount() },
		func(p *corev1.Pod) { p.Status.ContainerStatuses[0].AllocatedResources = amount() },
		func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{Requests: amount()}
		},
		func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible})
		},
		func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		},
		func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} },
		func(p *corev1.Pod) { p.Spec.Overhead = amount() },
	}
	for range 3000 {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", ResourceVersion: "1"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: amount()}}}},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}}},
		}
		for range r.IntN(3) {
			busy[r.IntN(len(busy))](pod)
		}
		after := pod.DeepCopy()
		counts := r.IntN(2) == 0
		if counts {
			busy[r.IntN(len(busy))](after)
		} else {
			idle[r.IntN(len(idle))](after)
		}
		before, now := glanceAtPod(t, pod), glanceAtPod(t, after)
		same := before.spec == now.spec && before.status == now.status
		if !counts && !same && len(pod.Status.Conditions) == 0 {
			t.Fatalf("they look different:\n%v\n%v", pod, after)
		}
		if diff := cmp.Diff(holding(t, pod), holding(t, after)); same && diff != "" {
			t.Fatalf("they look the same and ask for different things:\n%s", diff)
		}
		after.Spec.NodeName = "node"
		if bound := glanceAtPod(t, after); bound.spec != now.spec || bound.status != now.status || bound.node != "node" {
			t.Fatalf("binding makes it another: %+v, %+v", now, bound)
		}
		for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed, corev1.PodSucceeded} {
			after.Status.Phase = phase
			if got, want := glanceAtPod(t, after).finished, nodecache.Finished(after); got != want {
				t.Fatalf("%s: finished %v, want %v", phase, got, want)
			}
		}
	}
}

func glanceAtPod(t *testing.T, pod *corev1.Pod) glance {
	t.Helper()
	message, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	o, err := informer.FromProto(informer.ResourceOf[*corev1.Pod]().Type, message)
	if err != nil {
		t.Fatal(err)
	}
	g, ok := glanceAt(o)
	if !ok {
		t.Fatal("it must be decoded")
	}
	return g
}

func holding(t *testing.T, pod *corev1.Pod) nodecache.Holding {
	t.Helper()
	p, err := nodecache.NewPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	return *p.Holding
}
