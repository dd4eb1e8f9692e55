package cri

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fill makes a cache of many pods with two containers each, and returns an event for each pod that repeats what is known.
func fill(r *Runtime, many int) (uids []types.UID, events []*runtimeapi.ContainerEventResponse) {
	for i := range many {
		uid := types.UID(fmt.Sprintf("uid-%d", i))
		sandbox := &runtimeapi.PodSandboxStatus{
			Id: fmt.Sprintf("sandbox-%d", i), State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: int64(i + 1),
			Metadata: &runtimeapi.PodSandboxMetadata{Uid: string(uid)}, Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.1"},
			Labels: map[string]string{podUIDLabel: string(uid), podNamespaceLabel: "default", podNameLabel: fmt.Sprint("pod-", i)},
		}
		event := &runtimeapi.ContainerEventResponse{ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, PodSandboxStatus: sandbox}
		r.cache.mergeSandbox(uid, "default", fmt.Sprint("pod-", i), toSandbox("containerd://", sandbox))
		for _, name := range []string{"a", "b"} {
			status := &runtimeapi.ContainerStatus{
				Id: fmt.Sprint("container-", i, name), State: runtimeapi.ContainerState_CONTAINER_RUNNING, StartedAt: 1, Metadata: &runtimeapi.ContainerMetadata{Name: name},
				Labels: map[string]string{podUIDLabel: string(uid), containerNameLabel: name},
			}
			r.cache.mergeContainer(uid, r.toContainer("containerd://", sandbox.Id, status), true)
			event.ContainersStatuses = append(event.ContainersStatuses, status)
		}
		uids, events = append(uids, uid), append(events, event)
	}
	r.cache.settleAll(r.cache.known(""))
	return uids, events
}

func benchRuntime(b *testing.B) *Runtime {
	r, err := New(Config{Endpoint: "unix:///nowhere.sock"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close() })
	return r
}

// BenchmarkPod is what a round of a pod's worker asks.
func BenchmarkPod(b *testing.B) {
	r := benchRuntime(b)
	uids, _ := fill(r, 100)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if sandbox, containers, err := r.Pod(b.Context(), uids[i%len(uids)]); err != nil || sandbox == nil || len(containers) != 2 {
			b.Fatal(sandbox, containers, err)
		}
	}
}

// BenchmarkEvent is an event that says nothing new, as those of our own actions do.
func BenchmarkEvent(b *testing.B) {
	r := benchRuntime(b)
	_, events := fill(r, 100)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, changed := r.take("containerd://", events[i%len(events)], nil); changed {
			b.Fatal("nothing has changed")
		}
	}
}

// BenchmarkRelist is a relist of real pods in which nothing has changed.
func BenchmarkRelist(b *testing.B) {
	n := startNode(b, nil)
	const many = 30
	for i := range many {
		pod := newPod(fmt.Sprint("pod-", i), []string{"sleep", "10000"})
		n.run(pod)
	}
	b.ReportAllocs()
	cpu := processTime(b)
	for b.Loop() {
		if changed, err := n.relist(b.Context()); err != nil || len(changed) > 0 {
			b.Fatal(changed, err)
		}
	}
	b.ReportMetric(float64((processTime(b)-cpu)/time.Microsecond)/float64(b.N), "cpu-µs/op")
	b.ReportMetric(many, "pods")
}
