package replicaset

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"vigil/controllers/internal/controllertest"
)

// BenchmarkReconcile is a look at a set of which nothing is to be done: what each event of one of its pods brings. It must not depend on
// how many pods the set has.
func BenchmarkReconcile(b *testing.B) {
	c := controllertest.New(b)
	controller := New(Config{Client: c.Client, Informers: c.Informers, Recorder: c.Recorder, Logger: c.Logger})
	c.Run(controller.Run)
	f := fixture{c, controller}
	for _, pods := range []int{1000, 3000, 10000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			ns := c.Namespace(b, fmt.Sprintf("pods-%d", pods))
			f.create(b, ns, int32(pods))
			f.settled(b, ns, int32(pods))
			key := types.NamespacedName{Namespace: ns, Name: "web"}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := controller.reconcile(b.Context(), key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
