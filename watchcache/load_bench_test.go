package watchcache_test

import (
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"

	"vigil/object"
	"vigil/store/storetest"
	"vigil/watchcache"
)

// fillPods puts n pods of 3.3 KB into etcd, many in a transaction.
func fillPods(tb testing.TB, target storetest.Target, n int) {
	tb.Helper()
	var ops []clientv3.Op
	for i := range n {
		obj := &corev1.Pod{Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%04d", i%5000)}}
		obj.Namespace, obj.Name = fmt.Sprintf("ns-%03d", i%100), fmt.Sprintf("deployment-7d9c5b8f6c-%05d", i)
		obj.Labels = map[string]string{"app": "web", "pod-template-hash": "7d9c5b8f6c"}
		obj.Annotations = map[string]string{"padding": strings.Repeat("0123456789abcdef", 190)}
		stored, err := object.EncodeStored(podType, obj)
		if err != nil {
			tb.Fatal(err)
		}
		if ops = append(ops, clientv3.OpPut(pods.Prefix+obj.Namespace+"/"+obj.Name, string(stored))); len(ops) == 100 || i == n-1 {
			if _, err := target.Etcd.Client().Txn(tb.Context()).Then(ops...).Commit(); err != nil {
				tb.Fatal(err)
			}
			ops = ops[:0]
		}
	}
}

// BenchmarkLoad starts a server on an etcd in this process with 50,000 pods, until it is ready. "history" gets them all as
// events of the feed, which is 100 times what a start really has.
func BenchmarkLoad(b *testing.B) {
	const n = 50000
	target := storetest.NewTarget(b)
	fillPods(b, target, n)
	for _, tc := range []struct {
		name    string
		backlog int64
	}{{"snapshot", -1}, {"history", 1000}} {
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, caches, stop := start(b, target.Store, watchcache.Config{Backlog: tc.backlog}, pods)
				if got := caches[0].Len(); got != n {
					b.Fatalf("%d pods", got)
				}
				stop()
			}
		})
	}
}
