package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/eventually"
	"vigil/kubelet/containerd"
)

// BenchmarkPodStart measures how long it takes from the request to the container's process, its image present, one pod after another, and
// where the time goes:
//
//	api        a watch shows the pod
//	scheduler  a watch shows the pod bound
//	kubelet    the runtime begins to make the sandbox
//	sandbox    it begins to make the container
//	container  the container's process has been started
//	status     a watch shows the pod Running
//	gone       from the request to delete it, without grace, until a watch shows it gone
//
// The figures are medians, in milliseconds; start is the sum up to the process, p99 its slowest percent.
//
//	cd test && go test -run '^$' -bench PodStart -benchtime 50x ./e2e
//
// With request=kubectl the request is `kubectl apply`, a process of its own.
func BenchmarkPodStart(b *testing.B) {
	c := start(b)
	client := c.Client()
	b.Run("request=create", func(b *testing.B) {
		benchmarkPodStart(b, c, "created", func(pod *corev1.Pod) error {
			_, err := client.CoreV1().Pods("default").Create(b.Context(), pod, metav1.CreateOptions{})
			return err
		})
	})
	b.Run("request=kubectl", func(b *testing.B) {
		benchmarkPodStart(b, c, "applied", func(pod *corev1.Pod) error {
			manifest, err := json.Marshal(pod)
			if err != nil {
				return err
			}
			_, stderr, err := c.TryKubectl(string(manifest), "apply", "-f", "-")
			if err != nil {
				return fmt.Errorf("kubectl apply: %w: %s", err, stderr)
			}
			return nil
		})
	})
}

func benchmarkPodStart(b *testing.B, c *cluster, prefix string, request func(pod *corev1.Pod) error) {
	client, runtime := c.Client(), c.cri()
	phases := map[string][]time.Duration{}
	startPod(b, client, runtime, prefix+"-warm", request) // connections are made, programs are in memory
	for i := 0; b.Loop(); i++ {
		for phase, took := range startPod(b, client, runtime, fmt.Sprintf("%s-%d", prefix, i), request) {
			phases[phase] = append(phases[phase], took)
		}
	}
	for phase, took := range phases {
		slices.Sort(took)
		b.ReportMetric(milliseconds(took[len(took)/2]), phase+"-p50-ms")
	}
	all := phases["start"]
	b.ReportMetric(milliseconds(all[len(all)*99/100]), "start-p99-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// startPod makes a pod and says how long each phase took. Then the pod is deleted.
func startPod(b *testing.B, client kubernetes.Interface, runtime runtimeapi.RuntimeServiceClient, name string, request func(pod *corev1.Pod) error) map[string]time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), eventually.Limit)
	defer cancel()
	pods := client.CoreV1().Pods("default")
	seen, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		b.Fatal(err)
	}
	defer seen.Stop()
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "demo:1"}}},
	}
	began := time.Now()
	requested := make(chan error, 1)
	go func() { requested <- request(pod.DeepCopy()) }()
	var answered, bound, running time.Time
	for running.IsZero() {
		event, more := <-seen.ResultChan()
		if !more {
			b.Fatalf("pod %s was not running in %v", name, eventually.Limit)
		}
		if event.Type == watch.Error || event.Type == watch.Bookmark {
			continue
		}
		pod = event.Object.(*corev1.Pod)
		if answered.IsZero() {
			answered = time.Now()
		}
		if bound.IsZero() && pod.Spec.NodeName != "" {
			bound = time.Now()
		}
		if pod.Status.Phase == corev1.PodRunning {
			running = time.Now()
		}
	}
	if err := <-requested; err != nil {
		b.Fatal(err)
	}
	sandboxes, err := runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(pod.UID)}}})
	if err != nil || len(sandboxes.Items) != 1 {
		b.Fatalf("sandboxes of pod %s: %v, %v", name, sandboxes, err)
	}
	container, err := runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")})
	if err != nil {
		b.Fatal(err)
	}
	sandbox, created, started := time.Unix(0, sandboxes.Items[0].CreatedAt), time.Unix(0, container.Status.CreatedAt), time.Unix(0, container.Status.StartedAt)
	b.StopTimer()
	deleted := time.Now()
	now := int64(0)
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		b.Fatal(err)
	}
	for event := range seen.ResultChan() {
		if event.Type == watch.Deleted {
			break
		}
	}
	gone := time.Since(deleted)
	b.StartTimer()
	return map[string]time.Duration{
		"api": answered.Sub(began), "scheduler": bound.Sub(answered), "kubelet": sandbox.Sub(bound), "sandbox": created.Sub(sandbox),
		"container": started.Sub(created), "status": running.Sub(started), "start": started.Sub(began), "gone": gone,
	}
}

// cri is the container runtime of the first node.
func (c *cluster) cri() runtimeapi.RuntimeServiceClient {
	c.T.Helper()
	daemon, err := containerd.Find(c.DataDir + "/nodes/node-1/containerd")
	if err != nil {
		c.T.Fatal(err)
	}
	conn, err := grpc.NewClient(daemon.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() { conn.Close() })
	return runtimeapi.NewRuntimeServiceClient(conn)
}
