package kubelet

import (
	"context"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/allocation"
)

// BenchmarkRound measures a round of a worker whose pod has nothing to do, beside what runtime and parts cost.
func BenchmarkRound(b *testing.B) {
	pod := testPod(corev1.RestartPolicyAlways, true, true)
	pod.UID, pod.ResourceVersion, pod.Generation = types.UID("1"), "1", 1
	k := &Kubelet{workers: map[types.UID]*worker{}}
	k.config = Config{Runtime: newStill()}.withDefaults()
	k.status = newStatusManager(nil, slog.New(slog.DiscardHandler), &k.running)
	k.allocations = allocation.Open("", k.config.Logger)
	w := newWorker(k, pod)
	round := func() {
		if _, done := w.sync(b.Context(), pod, false); done {
			b.Fatal("the pod has ended")
		}
	}
	round()
	written := *pod // the API server has what the first round has wanted
	written.Status, written.ResourceVersion = k.status.latest(pod).Status, "2"
	if !k.status.current(&written) || written.Status.Phase != corev1.PodRunning {
		b.Fatalf("status: %+v", written.Status)
	}
	pod = &written
	b.ReportAllocs()
	for b.Loop() {
		round()
	}
}

// still is a runtime in which nothing happens.
type still struct {
	Runtime
	sandbox    *Sandbox
	containers []*Container
}

func newStill() still {
	now := seen("i0 s+ a+ b+")
	s := still{sandbox: now.sandbox}
	for _, c := range now.containers {
		s.containers = append(s.containers, c)
	}
	return s
}

func (s still) Pod(context.Context, types.UID) (*Sandbox, []*Container, error) {
	return s.sandbox, s.containers, nil
}
