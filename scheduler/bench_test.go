package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer"
	"vigil/scheduler/nodecache"
	"vigil/scheduler/queue"
)

// benchScheduler has nodes, and pods spread over them.
func benchScheduler(b *testing.B, nodes, pods int) *Scheduler {
	b.Helper()
	s := &Scheduler{cache: nodecache.New(), queue: queue.New(queue.Backoff{})}
	s.profiles = map[string]*profile{corev1.DefaultSchedulerName: newProfile(DefaultProfile(), nil)}
	s.config = Config{}.withDefaults()
	for i := range nodes {
		s.cache.SetNode(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{corev1.LabelHostname: fmt.Sprintf("node-%d", i)}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110"),
			}},
		})
	}
	for i := range pods {
		s.cache.AddPod(benchPod(b, fmt.Sprintf("pod-%d", i), fmt.Sprintf("node-%d", i%nodes)))
	}
	return s
}

func benchPod(b *testing.B, name, node string) *nodecache.Pod {
	b.Helper()
	p, err := nodecache.NewPod(rawPod(name, node))
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func rawPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), ResourceVersion: "1"},
		Spec: corev1.PodSpec{NodeName: node, SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{
			Name: "app", Image: "app:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
		}}},
	}
}

// BenchmarkCycle is the decision about one pod. It depends on the nodes that are looked at, and not on the pods that are there.
func BenchmarkCycle(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{1000, 1000}, {1000, 3000}, {1000, 10000}, {100, 1000}, {300, 1000}} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", size.nodes, size.pods), func(b *testing.B) {
			s := benchScheduler(b, size.nodes, size.pods)
			pod := benchPod(b, "new", "")
			b.ReportAllocs()
			for b.Loop() {
				d, err := s.decide(b.Context(), s.profileOf(pod), pod)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.cache.Assume(pod, d.node.Name); err != nil {
					b.Fatal(err)
				}
				s.cache.Forget(pod.UID)
			}
		})
	}
}

// BenchmarkPodChanged is what a status that a kubelet has written costs the scheduler.
func BenchmarkPodChanged(b *testing.B) {
	for _, pods := range []int{1000, 3000, 10000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			s := benchScheduler(b, 1000, pods)
			states := make([]*informer.Object, 2)
			for i := range states {
				pod := rawPod("pod-0", "node-0")
				pod.ResourceVersion = fmt.Sprint(i + 1)
				pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprint("10.0.0.", i)}
				message, err := pod.Marshal()
				if err != nil {
					b.Fatal(err)
				}
				if states[i], err = informer.FromProto(informer.ResourceOf[*corev1.Pod]().Type, message); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.podChanged(states[i%2], states[(i+1)%2])
			}
		})
	}
}
