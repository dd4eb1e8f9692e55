package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/apiservertest"
)

// benchPods creates n pods of about 2.5 KB JSON in namespace bench, on 10 nodes.
func benchPods(b testing.TB, k *kubernetes.Clientset, n int) {
	b.Helper()
	namespace(b, k, "bench")
	var wg sync.WaitGroup
	jobs := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range jobs {
				if _, err := k.CoreV1().Pods("bench").Create(context.Background(), benchPod(i), metav1.CreateOptions{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range n {
		jobs <- i
	}
	close(jobs)
	wg.Wait()
}

func benchPod(i int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%05d", i), Labels: map[string]string{"app": fmt.Sprint("app-", i%100), "tier": "web"},
			Annotations: map[string]string{"note": strings.Repeat("x", 600)},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprint("node-", i%10)},
	}
	for c := range 2 {
		container := corev1.Container{Name: fmt.Sprint("c", c), Image: "registry.example/app:v1"}
		for e := range 6 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", e), Value: "some value or other"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	return pod
}

// sink is a response that goes nowhere, to see the server's own cost without TLS and client.
type sink struct {
	header http.Header
	n      int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { s.n += len(p); return len(p), nil }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Flush()                      {}

// BenchmarkHandler measures requests without the transport: what the server itself does, down to the bytes.
func BenchmarkHandler(b *testing.B) {
	s := apiservertest.Start(b)
	benchPods(b, s.Clientset(), 1000)
	handler := s.Handler("admin", "system:masters")
	for _, bm := range []struct{ name, path, accept string }{
		{"list/1000/gzip", "/api/v1/pods?resourceVersion=0", "application/json"},
		{"list/1000/gzip protobuf", "/api/v1/pods?resourceVersion=0", "application/vnd.kubernetes.protobuf"},
		{"get/json", "/api/v1/namespaces/bench/pods/pod-00001?resourceVersion=0", "application/json"},
		{"get/protobuf", "/api/v1/namespaces/bench/pods/pod-00001?resourceVersion=0", "application/vnd.kubernetes.protobuf"},
		{"get/consistent", "/api/v1/namespaces/bench/pods/pod-00001", "application/json"},
		{"get/table", "/api/v1/namespaces/bench/pods/pod-00001?resourceVersion=0", "application/json;as=Table;g=meta.k8s.io;v=v1"},
		{"list/1000/json", "/api/v1/pods?resourceVersion=0", "application/json"},
		{"list/1000/protobuf", "/api/v1/pods?resourceVersion=0", "application/vnd.kubernetes.protobuf"},
		{"list/1000/metadata", "/api/v1/pods?resourceVersion=0", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"},
		{"list/1000/table", "/api/v1/pods?resourceVersion=0", "application/json;as=Table;g=meta.k8s.io;v=v1"},
		{"list/node", "/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%3Dnode-1", "application/json"},
		{"list/label", "/api/v1/pods?resourceVersion=0&labelSelector=app%3Dapp-1", "application/json"},
		{"list/page", "/api/v1/pods?limit=100", "application/json"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			req, err := http.NewRequest(http.MethodGet, bm.path, nil)
			if err != nil {
				b.Fatal(err)
			}
			req.Header.Set("Accept", bm.accept)
			if strings.Contains(bm.name, "gzip") {
				req.Header.Set("Accept-Encoding", "gzip")
			}
			b.ReportAllocs()
			var n int
			for b.Loop() {
				w := &sink{header: http.Header{}}
				handler.ServeHTTP(w, req)
				n = w.n
			}
			if n < 500 {
				b.Fatalf("answered with %d bytes", n)
			}
			b.SetBytes(int64(n))
		})
	}
}

// BenchmarkTransport measures the same over TLS and HTTP/2, client included.
func BenchmarkTransport(b *testing.B) {
	s := apiservertest.Start(b)
	benchPods(b, s.Clientset(), 1000)
	c := newClient(b, s.Admin())
	for _, bm := range []struct{ name, path string }{
		{"get", "/api/v1/namespaces/bench/pods/pod-00001"},
		{"list/1000", "/api/v1/pods?resourceVersion=0"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			var n int64
			for b.Loop() {
				resp := c.open(b.Context(), http.MethodGet, bm.path, "", "Accept-Encoding: identity")
				var err error
				if n, err = io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
			}
			b.SetBytes(n)
		})
	}
}
