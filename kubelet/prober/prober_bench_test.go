package prober

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"vigil/kubelet/probe"
)

// BenchmarkProber has a node's 1,000 pods with three probes each, every second. An iteration is a second; what counts is the CPU
// time it takes. With http the server is in the same process and counted, too.
func BenchmarkProber(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		b.Fatal(err)
	}
	client := probe.New("v1.37.2")
	for name, ask := range map[string]func(context.Context, Question) (probe.Result, string, error){
		"at-rest": func(context.Context, Question) (probe.Result, string, error) { return probe.Success, "", nil },
		"http": func(ctx context.Context, q Question) (probe.Result, string, error) {
			return client.Do(ctx, &q.Spec.ProbeHandler, time.Duration(q.Spec.TimeoutSeconds)*time.Second, probe.Target{Container: q.Container, PodIP: q.IP})
		},
	} {
		b.Run(name, func(b *testing.B) {
			asked := new(atomic.Int64)
			p := New(Config{Ask: func(ctx context.Context, q Question) (probe.Result, string, error) {
				asked.Add(1)
				return ask(ctx, q)
			}, Changed: func(types.UID) {}, Event: func(_ *corev1.Pod, _ *corev1.Container, _, message string) { b.Error(message) }})
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan struct{})
			go func() {
				p.Run(ctx)
				close(done)
			}()
			get := func() *corev1.Probe {
				return every(1, func(s *corev1.Probe) {
					s.HTTPGet = &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(int32(number))}
				})
			}
			for i := range 1000 {
				pod := probedTestPod(nil, get(), get())
				pod.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprint("web-", i), Namespace: "ns", UID: types.UID(strconv.Itoa(i))}
				sidecar := *pod.Spec.Containers[0].DeepCopy()
				sidecar.Name, sidecar.ReadinessProbe = "s", nil
				pod.Spec.Containers = append(pod.Spec.Containers, sidecar)
				running := func(name string) Running {
					return Running{ID: fmt.Sprint(name, i), Started: time.Now().Add(time.Duration(i) * time.Millisecond)}
				}
				p.Look(pod, map[string]Running{"c": running("c"), "s": running("s")}, host, false)
			}
			before, n := cpuTime(b), asked.Load()
			for b.Loop() {
				time.Sleep(time.Second)
			}
			seconds := b.Elapsed().Seconds()
			b.ReportMetric((cpuTime(b)-before).Seconds()*1000/seconds, "cpu-ms/s")
			b.ReportMetric(float64(asked.Load()-n)/seconds, "probes/s")
			cancel()
			<-done
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
