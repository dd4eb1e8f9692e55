package volumes

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// benchmarked makes pods with a config map, a secret and a token each.
func (w *world) benchmarked(n int) []*corev1.Pod {
	w.Helper()
	w.configMap("m", map[string]string{"k": "v"})
	w.secret("s", map[string][]byte{"k": []byte("v")})
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = w.pod(fmt.Sprintf("p%d", i), nil, named("config", fromConfigMap("m")), named("secret", fromSecret("s")), named("token", tokenVolume(3600)))
	}
	return pods
}

// BenchmarkMount makes the three volumes of a pod, two of them in memory, and takes them away. The API server, which makes a token, is
// a part of what is measured.
func BenchmarkMount(b *testing.B) {
	w := newWorld(b)
	pod := w.benchmarked(1)[0]
	for b.Loop() {
		w.mount(pod)
		must(b, w.manager.Unmount(b.Context(), pod.UID))
	}
}

// BenchmarkRound is a kubelet's look at 100 pods: with nothing new, and after an object of each has changed and its files are compared.
func BenchmarkRound(b *testing.B) {
	for _, test := range []struct {
		name  string
		dirty bool
	}{{"unchanged", false}, {"compared", true}} {
		b.Run(test.name, func(b *testing.B) {
			w := newWorld(b)
			pods := w.benchmarked(100)
			for _, pod := range pods {
				w.mount(pod)
			}
			w.background(func(ctx context.Context) error {
				for {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-w.told: // nobody else listens
					}
				}
			})
			for b.Loop() {
				for _, pod := range pods {
					if test.dirty {
						w.manager.objectsChanged([]types.UID{pod.UID})
					}
					w.mount(pod)
				}
			}
		})
	}
}
