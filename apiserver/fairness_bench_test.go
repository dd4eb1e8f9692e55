package apiserver_test

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
)

// BenchmarkFairness measures what priority and fairness adds to a get that need not wait: of an administrator, who is exempt, of a kubelet
// and of a user, one after the other and from many goroutines.
func BenchmarkFairness(b *testing.B) {
	for _, on := range []bool{false, true} {
		s := apiservertest.Start(b, func(c *apiserver.Config) { c.Fairness = on })
		benchPods(b, s.Clientset(), 20)
		for _, who := range []struct {
			user   string
			groups []string
		}{
			{"admin", []string{"system:masters"}},
			{"system:kube-scheduler", nil},
		} {
			handler := s.Handler(who.user, who.groups...)
			req, err := http.NewRequest(http.MethodGet, "/api/v1/namespaces/bench/pods/pod-00001?resourceVersion=0", nil)
			if err != nil {
				b.Fatal(err)
			}
			req.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
			get := func(b *testing.B) {
				w := &sink{header: http.Header{}}
				if handler.ServeHTTP(w, req); w.n < 500 {
					b.Fatalf("answered with %d bytes", w.n)
				}
			}
			b.Run(fmt.Sprintf("on=%t/%s", on, who.user), func(b *testing.B) {
				b.ReportAllocs()
				began := cpuTime(b)
				for b.Loop() {
					get(b)
				}
				b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N), "cpu-ns/op")
			})
			b.Run(fmt.Sprintf("on=%t/%s/parallel", on, who.user), func(b *testing.B) {
				b.SetParallelism(8)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						get(b)
					}
				})
			})
		}
	}
}

// cpuTime is what the process has used so far, in nanoseconds. Other work on the machine does not count.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
