package stats

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestCountDisks_DuringACount: a pod that fills the disk while it is being counted is counted once more before CountDisks returns, once for all who
// ask; eviction went by the figure from before and ended another pod.
func TestCountDisks_DuringACount(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var asked, size atomic.Uint64
		size.Store(1)
		goOn := make(chan struct{})
		p := New(Config{
			Pods:    func() []*corev1.Pod { return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}}} },
			Runtime: &node{}, Images: &node{images: dir}, RootDir: dir, LogDir: dir,
			Volumes: func(context.Context, types.UID) []Volume {
				found := []Volume{{Name: "v", Bytes: size.Load()}}
				if asked.Add(1) == 1 {
					<-goOn
				}
				return found
			},
		})
		count := func() {
			if err := p.CountDisks(t.Context()); err != nil {
				t.Error(err)
			}
		}
		go count()
		synctest.Wait()
		size.Store(2)
		ended := make(chan uint64, 2)
		for range cap(ended) {
			go func() {
				count()
				p.mu.Lock()
				defer p.mu.Unlock()
				ended <- p.disks["a"].volumes[0].Bytes
			}()
		}
		synctest.Wait()
		close(goOn)
		for range cap(ended) {
			if got := <-ended; got != 2 {
				t.Errorf("the pod has %d bytes, want 2", got)
			}
		}
		synctest.Wait()
		if asked.Load() != 2 || len(p.counting) != 0 {
			t.Errorf("the pod was measured %d times, want twice; %d counts are left", asked.Load(), len(p.counting))
		}
	})
}
